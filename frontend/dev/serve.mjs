// The dev page. `npm run dev` serves it and builds again what changed; `node dev/serve.mjs --out FOLDER` only builds it.
// Themes are those of the JupyterLab in ../.venv, or of the prefix that JUPYTER_PREFIX names; without one, the page is bare.
import { copyFile, mkdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { context } from "esbuild";

const folder = new URL("./", import.meta.url).pathname;
const prefix = process.env.JUPYTER_PREFIX ?? `${folder}../../.venv`;
const themes = ["light", "dark", "dark-high-contrast"]
  .map((name) => ({
    in: `${prefix}/share/jupyter/lab/themes/@jupyterlab/theme-${name}-extension/index.css`,
    out: `theme-${name}`,
  }))
  .filter((each) => existsSync(each.in));
const at = process.argv.indexOf("--out");
const outdir = at < 0 ? folder : process.argv[at + 1];
const building = await context({
  entryPoints: [{ in: `${folder}main.ts`, out: "main" }, ...themes],
  outdir,
  write: at >= 0, // a server has them in memory
  bundle: true,
  format: "iife",
  target: "es2022",
  sourcemap: "linked",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "dataurl", ".png": "dataurl", ".woff": "empty", ".woff2": "empty", ".ttf": "empty", ".eot": "empty" },
  logLevel: at < 0 ? "info" : "warning",
  nodePaths: [`${folder}../node_modules`],
});
if (at < 0) {
  await building.watch();
  const { port } = await building.serve({ servedir: folder, port: 8123 });
  console.log(`http://127.0.0.1:${port}/?theme=light`);
} else {
  await mkdir(outdir, { recursive: true });
  await building.rebuild();
  await copyFile(`${folder}index.html`, `${outdir}/index.html`);
  await building.dispose();
}
