/* Start: draw the sections, and let the page answer. */

function startContents() {
  const sections = [...document.querySelectorAll("main > section:not([hidden])")];
  const links = sections.map((place) => h("a", { href: "#" + place.id }, place.dataset.title));
  byId("contents").append(...links.map((link) => h("li", null, link)));
  sections.forEach((place) => {
    const title = place.querySelector("h2");
    title.id = place.id + "-title";
    place.setAttribute("aria-labelledby", title.id);
  });
  const mark = () => {
    const reached = sections.filter((place) => place.getBoundingClientRect().top < innerHeight * 0.3);
    const bottom = innerHeight + scrollY > document.documentElement.scrollHeight - 4;
    const current = bottom ? sections.length - 1 : Math.max(0, reached.length - 1);
    links.forEach((link, i) =>
      i === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"),
    );
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

/* A choice of theme lasts for this view of the page; without one the system's holds. */
function startTheme() {
  const button = byId("theme");
  const root = document.documentElement;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const tell = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
}

startTheme();
startTips();
showSummary();
showCompare();
startGraph();
showCosts();
showTimeline();
showNests();
showWhyNot();
showWhatIf();
showSearch();
showColophon();
startContents();
byId("print").addEventListener("click", () => print());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeDetails();
});
