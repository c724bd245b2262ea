// The few things done to the page's elements. Text from outside stays text: nothing here makes markup of it.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A bar of `share` (0 to 1) in `box`; the figure beside it says the same in words. Of nothing there is no bar.
export function bar(box, share, tone = "") {
  let fill = box.firstElementChild;
  if (!fill) {
    box.className = "bar";
    box.setAttribute("aria-hidden", "true");
    fill = box.appendChild(element("span"));
  }
  const width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  if (fill.style.width !== width) fill.style.width = width;
  box.classList.toggle("nothing", !share);
  if (fill.className !== tone) fill.className = tone;
}

// Set the text, if it is another one.
export function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Hide it or show it, if it is not so already.
export function hide(place, hidden) {
  if (place.hidden !== hidden) place.hidden = hidden;
}

export function set(place, attribute, value) {
  if (place.getAttribute(attribute) !== value) place.setAttribute(attribute, value);
}
