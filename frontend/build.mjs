// Bundles the front end into the two files that ship in the wheel. With --check it fails when they are not up to date;
// with --watch it bundles again what changes, and a notebook takes that when the cell of a widget runs again.
import { readFile } from "node:fs/promises";
import { context } from "esbuild";

const folder = new URL("../sleeper_nb/widgets/static/", import.meta.url);
const isCheck = process.argv.includes("--check");
const bundle = await context({
  entryPoints: [{ in: "src/index.tsx", out: "explorer" }],
  outdir: folder.pathname,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  write: !isCheck,
  absWorkingDir: new URL(".", import.meta.url).pathname,
});
if (process.argv.includes("--watch")) await bundle.watch();
else {
  const made = await bundle.rebuild();
  await bundle.dispose();
  if (isCheck) await check(made.outputFiles);
}

async function check(files) {
  const old = [];
  for (const file of files) {
    const kept = await readFile(file.path).catch(() => Buffer.alloc(0));
    if (!kept.equals(Buffer.from(file.contents))) old.push(file.path);
  }
  if (old.length > 0) {
    console.error(`Not what \`npm run build\` makes: ${old.join(", ")}`);
    process.exitCode = 1;
  }
}
