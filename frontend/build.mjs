// Bundles the front end into the two files that ship in the wheel. With --check it fails when they are not up to date.
import { readFile } from "node:fs/promises";
import { build } from "esbuild";

const folder = new URL("../sleeper_nb/widgets/static/", import.meta.url);
const isCheck = process.argv.includes("--check");
const made = await build({
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
if (isCheck) {
  const old = [];
  for (const file of made.outputFiles) {
    const kept = await readFile(file.path).catch(() => Buffer.alloc(0));
    if (!kept.equals(Buffer.from(file.contents))) old.push(file.path);
  }
  if (old.length > 0) {
    console.error(`Not what \`npm run build\` makes: ${old.join(", ")}`);
    process.exit(1);
  }
}
