// The hash has 32 bits here, and 64 in the other languages: JavaScript has no fast whole numbers of 64.
const message = Buffer.alloc(Number(process.argv[2]), "a");
let result = 0;

require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const n = Number(line);
  for (let i = 0; i < n; i++) {
    let hash = 0x811c9dc5;
    for (const byte of message) hash = Math.imul(hash ^ byte, 0x01000193);
    result ^= hash;
  }
  console.log(n);
});
