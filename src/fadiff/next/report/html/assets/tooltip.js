/* One tooltip for all: elements register a function that says what to show, first line strong. */

const tips = new WeakMap();

function startTips() {
  const tip = byId("tip");
  const told = (event) => {
    for (let at = event.target; at instanceof Element; at = at.parentElement)
      if (tips.has(at)) return [at, tips.get(at)];
    return [null, null];
  };
  const place = (x, y) => {
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(x + 14, innerWidth - width - 8);
    const top = y + 18 + height > innerHeight ? y - height - 12 : y + 18;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, top) + "px";
  };
  const show = (say, x, y) => {
    const [first, ...rest] = say().split("\n");
    tip.replaceChildren(h("strong", null, first), rest.length ? "\n" + rest.join("\n") : "");
    tip.hidden = false;
    place(x, y);
  };
  const hide = () => {
    tip.hidden = true;
  };
  let current = null;
  document.addEventListener("pointermove", (event) => {
    const [element, say] = told(event);
    if (!element) hide();
    else if (element !== current || tip.hidden) show(say, event.clientX, event.clientY);
    else place(event.clientX, event.clientY);
    current = element;
  });
  document.addEventListener("focusin", (event) => {
    const [element, say] = told(event);
    if (!element || !event.target.matches(":focus-visible")) return hide();
    const box = element.getBoundingClientRect();
    show(say, box.left, box.bottom - 12);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, true);
}
