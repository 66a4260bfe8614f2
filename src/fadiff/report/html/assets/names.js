/* Names where there is little room: as much of each as fits, in the font that this browser has. Fonts differ in width by
   a third, so a count of characters would leave room in one and run out of the box in another. */

const ruler = document.createElement("canvas").getContext("2d");

/* A name in at most so many pixels. Its end tells more than its middle, its beginning says where it belongs. */
function shortened(name, room, { fontWeight, fontSize, fontFamily }) {
  ruler.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  const fits = (words) => ruler.measureText(words).width <= room;
  if (fits(name)) return name;
  const signs = [...name];
  const cut = (kept) => {
    const head = Math.floor(kept / 3);
    return signs.slice(0, head).join("") + "…" + signs.slice(head - kept).join("");
  };
  let [least, most] = [1, signs.length - 1];
  while (least < most) {
    const kept = Math.ceil((least + most) / 2);
    if (fits(cut(kept))) least = kept;
    else most = kept - 1;
  }
  return cut(least);
}

/* A name in a sentence or a cell: its middle is left out where it is very long. A tooltip has the whole of it. */
const NAME_LENGTH = 72;
function cutName(name) {
  const signs = [...name];
  if (signs.length <= NAME_LENGTH) return name;
  const head = Math.floor(NAME_LENGTH / 3);
  return signs.slice(0, head).join("") + "…" + signs.slice(head + 1 - NAME_LENGTH).join("");
}

/* As much as fits, in the page's own font. */
const fitted = (name, room, fontSize = "12px") =>
  shortened(name, room, { fontWeight: 400, fontSize, fontFamily: getComputedStyle(document.body).fontFamily });

/* The names in the boxes of a picture of the network, at the size that its scale gives them. */
function fitNames(picture) {
  const names = [...picture.querySelectorAll(".node .name")];
  if (!names.length) return;
  const box = names[0].parentElement.querySelector(".box");
  const room = box.width.baseVal.value - Number(names[0].getAttribute("x")) - 5;
  const font = getComputedStyle(names[0]);
  for (const name of names) {
    const members = data.nodes[name.parentElement.dataset.node];
    if (members.length === 1) name.textContent = shortened(data.layers[members[0]].name, room, font);
  }
}
