// Panics of Rust through frames of C++ (foreign.cpp), and exceptions of C++ through frames of Rust. It counts its calls
// and waits as adversarial.h says.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

extern "C-unwind" {
    fn cxx_passes(n: i64, depth: i64) -> i64;
    fn cxx_throws(n: i64);
    fn cxx_catches(n: i64) -> i64;
    fn cxx_destroyed() -> i64;
    fn cxx_say_counts();
}

static PANICS: AtomicU64 = AtomicU64::new(0);
static PANICS_NOT: AtomicU64 = AtomicU64::new(0);
static PASSED: AtomicU64 = AtomicU64::new(0);
static PASSES: AtomicU64 = AtomicU64::new(0);
static DROPS: AtomicU64 = AtomicU64::new(0);
static CATCHES: AtomicU64 = AtomicU64::new(0);

struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        rust_drops();
    }
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn rust_drops() {
    DROPS.fetch_add(1, Ordering::Relaxed);
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn rust_panics(n: i64) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let _dropped = Dropped;
    if n % 4 != 0 {
        std::panic::panic_any(n);
    }
    PANICS_NOT.fetch_add(1, Ordering::Relaxed);
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn rust_passes(n: i64, depth: i64) -> i64 {
    PASSES.fetch_add(1, Ordering::Relaxed);
    let _dropped = Dropped;
    let mut result = n;
    if depth > 0 {
        result = rust_passes(n, depth - 1) + 1;
    } else {
        unsafe { cxx_throws(n) };
    }
    PASSED.fetch_add(1, Ordering::Relaxed);
    result
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn rust_catches(n: i64) -> i64 {
    CATCHES.fetch_add(1, Ordering::Relaxed);
    let caught = std::panic::catch_unwind(|| unsafe { cxx_passes(n, n % 6) });
    caught.unwrap_or_else(|panic| *panic.downcast::<i64>().unwrap() * 3)
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

fn wait_for_line() {
    let mut byte = [0];
    while std::io::stdin().read(&mut byte).is_ok_and(|count| count == 1) && byte != *b"\n" {}
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    say("ready\n");
    wait_for_line();
    let mut sum = 0;
    for n in 0..1000 {
        sum += rust_catches(n);
        sum += unsafe { cxx_catches(n) };
    }
    say(&format!("sum {sum} destroyed {}\n", unsafe { cxx_destroyed() }));
    for (name, count) in
        [("rust_panics", &PANICS), ("rust_passes", &PASSES), ("rust_drops", &DROPS), ("rust_catches", &CATCHES)]
    {
        say(&format!("calls {name} {}\n", count.load(Ordering::Relaxed)));
    }
    for (name, count) in [("rust_panics", &PANICS_NOT), ("rust_passes", &PASSED)] {
        say(&format!("returns {name} {}\n", count.load(Ordering::Relaxed)));
    }
    unsafe { cxx_say_counts() };
    say("done\n");
    wait_for_line();
}
