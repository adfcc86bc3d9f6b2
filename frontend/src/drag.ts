/** Follow the pointer that was pressed on a handle until it is released; `onMove` gets how far it went, in pixels. */
export function drag(event: PointerEvent, onMove: (x: number, y: number) => void): void {
  if (event.button !== 0) return;
  event.preventDefault();
  const handle = event.currentTarget as HTMLElement;
  const { clientX, clientY } = event;
  handle.setPointerCapture(event.pointerId);
  const follow = (to: PointerEvent): void => onMove(to.clientX - clientX, to.clientY - clientY);
  handle.addEventListener("pointermove", follow);
  const end = (): void => handle.removeEventListener("pointermove", follow);
  handle.addEventListener("lostpointercapture", end, { once: true });
}
