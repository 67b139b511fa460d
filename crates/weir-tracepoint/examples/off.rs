//! A loop with a tracepoint that nobody traces, or without: `tests/programs/off.c` in Rust, for `cargo xtask bench tracepoint`.
//!
//! `off empty|weir SITES TURNS` prints what a turn takes, in nanoseconds of this thread's CPU time; SITES is 1 or 8.

use std::arch::asm;
use std::process::ExitCode;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_tracepoint::tracepoint;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (turns, count): (fn(u64), &str) = match words[..] {
        ["empty", "1", count] => (turns_empty, count),
        ["weir", "1", count] => (turns_weir, count),
        ["empty", "8", count] => (turns_8_empty, count),
        ["weir", "8", count] => (turns_8_weir, count),
        _ => return usage(),
    };
    let Ok(count) = count.parse() else { return usage() };
    let start = now();
    turns(count);
    println!("{:.4}", (now() - start).as_nanos() as f64 / count as f64);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: off empty|weir 1|8 TURNS");
    ExitCode::from(2)
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}

/// Stands for the program around: nothing is known of memory behind it.
#[inline(always)]
fn keep(n: u64) -> u64 {
    let mut n = n;
    // SAFETY: no instruction.
    unsafe { asm!("/* {0} */", inout(reg) n, options(nostack, preserves_flags)) };
    n
}

/// A function whose turn is so many of `event`. callgrind counts those whose names have `turns` in them.
macro_rules! turns {
    ($name:ident, |$n:ident| $event:expr, $($site:literal)*) => {
        #[inline(never)]
        fn $name(count: u64) {
            let mut n = 0;
            while n < count {
                n += 1;
                $({
                    let _ = $site;
                    n = keep(n);
                    let $n = n;
                    $event;
                })*
            }
        }
    };
}

turns!(turns_empty, |_n| {}, 1);
turns!(turns_weir, |n| tracepoint!(bench, tick, (u64, n, n)), 1);
turns!(turns_8_empty, |_n| {}, 1 2 3 4 5 6 7 8);
turns!(turns_8_weir, |n| tracepoint!(bench, tick, (u64, n, n)), 1 2 3 4 5 6 7 8);
