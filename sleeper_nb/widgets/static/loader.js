// Draws with explorer.js, which it asks the kernel for: a saved notebook keeps the source of this file in each widget.
const loaded = (globalThis[Symbol.for("sleeper_nb.explorer")] ??= new Map());

function askForSource(model) {
  const id = Math.floor(Math.random() * 2 ** 50);
  return new Promise((resolve, reject) => {
    const take = (message) => {
      if (message?.id !== id) return;
      model.off("msg:custom", take);
      if (message.ok) resolve(message.ok);
      else reject(new Error(message.error?.message ?? "The kernel sent no page"));
    };
    model.on("msg:custom", take);
    model.send({ id, topic: `source ${id}`, do: "source" });
  });
}

async function load(model) {
  const { script, style } = await askForSource(model);
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  try {
    return { page: (await import(url)).default, style };
  } finally {
    URL.revokeObjectURL(url);
  }
}

async function render({ model, el }) {
  const build = model.get("build");
  if (!loaded.has(build)) {
    const loading = load(model);
    loading.catch(() => loaded.delete(build));
    loaded.set(build, loading);
  }
  const { page, style } = await loaded.get(build);
  const sheet = document.createElement("style");
  sheet.textContent = style;
  const place = document.createElement("div");
  el.replaceChildren(sheet, place);
  const clear = page.render({ model, el: place });
  return () => {
    clear();
    el.replaceChildren();
  };
}

export default { render };
