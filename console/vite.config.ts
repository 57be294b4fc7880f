import { defineConfig } from "vite";

// The server answers files below /assets for ever, since their names have a hash of their content, and every other path
// with index.html. The same sources and lock file give the same bytes: a test builds them again and compares.
export default defineConfig({
  build: {
    outDir: "../koord/console/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: true,
  },
});
