//! The same events as tracepoints.c has, with the same output.

use std::hint::black_box;

use weir_tracepoint::tracepoint;

const RED: i32 = 0;
const GREEN: i32 = 5;
const BLUE: i32 = 6;

struct Point {
    x: i16,
    y: u64,
    z: f64,
}

fn evaluate(evaluated: &mut i32, value: i32) -> i32 {
    *evaluated += 1;
    value
}

#[inline(never)]
fn integers(n: i32) {
    let (a, b, c, d) = (-n as i8, n as u8, (-300 * n) as i16, (40000 + n) as u16);
    let (f, g, h, i) = (4_000_000_000 + n as u32, -i64::from(n) << 40, !(n as u64), n & 1 != 0);
    println!("integers {a} {b} {c} {d} {} {f} {g} {h} {} {f:x}", -n, i32::from(i));
    tracepoint!(tp, integers, (i8, a, a), (u8, b, b), (i16, c, c), (u16, d, d), (i32, e, -n), (u32, f, f),
        (i64, g, g), (u64, h, h), (bool, i, i), (hex u32, j, f));
}

#[inline(never)]
fn floats(n: i32) {
    let (a, b) = (f64::from(n) * 1e100 / 7.0, n as f32 / -3.0);
    println!("floats {a:e} {:e} 0.5 -0.25", f64::from(b));
    tracepoint!(tp, floats, (f64, a, a), (f32, b, b), (f64, half, 0.5), (f32, quarter, -0.25));
}

#[inline(never)]
fn texts(n: i32) {
    let a = [c"one", c"two words", c""][n as usize % 3];
    let b = &"cut here"[..n as usize % 8 + 1];
    let mut written = format!("round {n}\0").into_bytes();
    let d = std::ffi::CStr::from_bytes_with_nul(&written).unwrap();
    println!("texts {} {b} literal {}", a.to_str().unwrap(), d.to_str().unwrap());
    tracepoint!(tp, texts, (CStr, a, a), (str, b, b), (CStr, c, c"literal"), (CStr, d, d));
    // What a tracer sees is what was written before, and not what is written now.
    written.fill(b'x');
    black_box(&written);
}

#[inline(never)]
fn memory(n: i32) {
    static NUMBERS: [f64; 3] = [1.0, 2.0, 3.0];
    let letters = black_box([b'a', b'b', b'c', b'd' + (n % 3) as u8]);
    let at = black_box(Point { x: 1, y: 2, z: 3.0 });
    let bytes = &b"bytes"[..n as usize % 5 + 1];
    let (text, part) = (std::str::from_utf8(&letters).unwrap(), std::str::from_utf8(bytes).unwrap());
    println!("memory {text} {part} {} {:p} {:p} {:p}", bytes.len(), &NUMBERS, &at, &letters[1]);
    tracepoint!(tp, memory, ([u8; 4], a, &letters), ([u8], b, bytes), ([f64; 3], c, &NUMBERS),
        (struct Point { x: i16, y: u64, z: f64 }, d, &at), (ptr, e, &letters[1]));
}

#[inline(never)]
fn colors(n: i32) {
    let color = if n % 2 != 0 { GREEN } else { BLUE };
    println!("colors {color} {}", n % 7);
    tracepoint!(tp, colors, level: Info, (enum i32 { RED = RED, GREEN = GREEN, BLUE = 6 }, a, color),
        (enum u8 { NONE = 0, MOST = 255 }, b, (n % 7) as u8));
}

#[inline(never)]
fn twelve(n: i64) {
    let all: Vec<String> = (1..=12).map(|factor| (n * factor).to_string()).collect();
    println!("twelve {}", all.join(" "));
    tracepoint!(tp, twelve, level: Emerg, (i64, a, n), (i64, b, n * 2), (i64, c, n * 3), (i64, d, n * 4),
        (i64, e, n * 5), (i64, f, n * 6), (i64, g, n * 7), (i64, h, n * 8), (i64, i, n * 9), (i64, j, n * 10),
        (i64, k, n * 11), (i64, l, n * 12));
}

#[inline(never)]
fn nothing() {
    println!("nothing");
    tracepoint!(tp, nothing);
}

#[inline(never)]
fn counted(n: i32, evaluated: &mut i32) {
    println!("counted {n}");
    tracepoint!(tp, counted, (i32, n, evaluate(evaluated, n)));
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(1, |text| text.parse().unwrap());
    let mut evaluated = 0;
    for n in 1..=rounds {
        integers(n);
        floats(n);
        texts(n);
        memory(n);
        colors(n);
        twelve(n.into());
        nothing();
        counted(n, &mut evaluated);
    }
    println!("evaluated {evaluated}");
}
