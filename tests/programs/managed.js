// A program for Node: code is compiled, optimized and thrown away while garbage is made all the time. For each line with a
// number it asks for the time so often, and prints `calls=TOTAL`; at the end of its input it ends with exit code 7, or with
// 8 if anything was computed wrong.
'use strict';
const { performance } = require('perf_hooks');
let kept = [], rounds = 0, wrong = 0, over = false, total = 0;

function hot(n) { let sum = 0; for (let i = 0; i < n; i++) sum = (sum + i * 7) % 1000003; return sum; }
const expected = hot(5000);

function turn() {
	for (let k = 0; k < 5; k++) {
		if (hot(5000) !== expected) wrong++;
		kept.push(new Array(1000).fill(k));
	}
	if (kept.length > 1000) kept = [];
	rounds++;
	// Code that was not there before, and a type that what was optimized does not expect.
	const made = new Function('x', `return x + ${rounds}`);
	for (let i = 0; i < 200; i++) if (made(i) !== i + rounds) wrong++;
	if (made('a') !== 'a' + rounds) wrong++;
	if (over) process.exit(wrong ? 8 : 7);
	setImmediate(turn);
}

require('readline').createInterface({ input: process.stdin }).on('line', line => {
	let last = 0;
	for (let i = 0; i < Number(line); i++) {
		const now = performance.now();
		if (now < last) wrong++;
		last = now;
	}
	total += Number(line);
	console.log(`calls=${total}`);
}).on('close', () => { over = true; });
console.log('ready');
turn();
