//! Two events of tracepoints_wide.c, in Rust. Takes the number of rounds.

use weir_tracepoint::tracepoint;

#[inline(never)]
fn thirteen(n: i64, text: &str) {
    tracepoint!(wide, thirteen, (i64, a, n), (i64, b, n * 2), (i64, c, n * 3), (i64, d, n * 4), (i64, e, n * 5),
        (i64, f, n * 6), (i64, g, n * 7), (i64, h, n * 8), (i64, i, n * 9), (i64, j, n * 10), (i64, k, n * 11),
        (str, l, &text[..n as usize]));
}

#[inline(never)]
fn all(n: i64) {
    tracepoint!(wide, all, (i64, a0, n), (i64, a1, n + 1), (i64, a2, n + 2), (i64, a3, n + 3), (i64, a4, n + 4),
        (i64, a5, n + 5), (i64, a6, n + 6), (i64, a7, n + 7), (i64, b0, n + 8), (i64, b1, n + 9), (i64, b2, n + 10),
        (i64, b3, n + 11), (i64, b4, n + 12), (i64, b5, n + 13), (i64, b6, n + 14), (i64, b7, n + 15), (i64, c0, n + 16),
        (i64, c1, n + 17), (i64, c2, n + 18), (i64, c3, n + 19), (i64, c4, n + 20), (i64, c5, n + 21), (i64, c6, n + 22),
        (i64, c7, n + 23), (i64, d0, n + 24), (i64, d1, n + 25), (i64, d2, n + 26), (i64, d3, n + 27), (i64, d4, n + 28),
        (i64, d5, n + 29), (i64, d6, n + 30), (i64, d7, n + 31));
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    for n in 1..=rounds {
        thirteen(n, "letters");
        all(n);
    }
}
