//! Bloom filters: what was pushed is found, whoever else pushes; and how often something else is, beside what theory
//! and the kernel say. (What each operation answers is in `oracle.rs`.)

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
use testkit::kernel_map::{Command, KernelMap};
use weir_ebpf::{MapKind, MapSpec};

use super::{segment, signals, spec};
use crate::abi::Descriptor;
use crate::runtime::linked;

fn filter(value_bytes: u32, max_entries: u32, hashes: u64) -> MapSpec {
    MapSpec { extra: hashes, ..spec(MapKind::BloomFilter, 0, value_bytes, max_entries) }
}

/// A value that says `number`, in its first bytes and its last ones.
fn numbered(number: u64, bytes: u32) -> Vec<u8> {
    let mut value = vec![0x5a; bytes as usize];
    value[..8].copy_from_slice(&number.to_le_bytes());
    let last = value.len() - 8;
    value[last..].copy_from_slice(&number.to_le_bytes());
    value
}

/// Of values that were not pushed, how many are said to be there.
fn false_positives(asked: u64, is_there: impl Fn(u64) -> bool) -> f64 {
    (0..asked).filter(|n| is_there(1_000_000 + n)).count() as f64 / asked as f64
}

#[test]
fn false_positives_are_as_many_as_theory_and_the_kernel_say() {
    const ASKED: u64 = 20_000;
    for (value_bytes, entries, hashes) in
        [(8, 1000, 0), (8, 1000, 1), (8, 10_000, 3), (29, 1000, 5), (8, 700, 10), (64, 5000, 15), (8, 10, 2)]
    {
        let spec = filter(value_bytes, entries, hashes);
        let segment = segment(std::slice::from_ref(&spec));
        let view = segment.map(0);
        let kernel = KernelMap::create(&spec).ok();
        for n in 0..u64::from(entries) {
            let value = numbered(n, value_bytes);
            assert_eq!(view.update(&[], &value, 0), Ok(()));
            if let Some(kernel) = &kernel {
                assert_eq!(kernel.user(Command::Update, &[], &value, 0).0, 0);
            }
        }
        assert!(
            (0..u64::from(entries)).all(|n| view.contains(&numbered(n, value_bytes))),
            "a false negative"
        );
        let k = f64::from(spec.bloom_hashes());
        let set = 1.0 - (-k * f64::from(entries) / f64::from(view.layout().buckets)).exp();
        let theory = set.powf(k);
        let ours = false_positives(ASKED, |n| view.contains(&numbered(n, value_bytes)));
        // Of so many asked, chance moves the number by five standard deviations once in a million runs; the seed, which
        // is the kernel's own, moves the rate of a filter, a small one's most.
        let asked = ASKED as f64;
        let seed = if entries < 100 { 2.0 * theory } else { theory / 4.0 };
        let chance = seed + (5.0 * (theory * asked).sqrt() + 5.0) / asked;
        let context =
            format!("{entries} entries, {k} hashes: {ours:.5}, in theory {theory:.5} ± {chance:.5}");
        assert!((ours - theory).abs() <= chance, "{context}");
        if let Some(kernel) = &kernel {
            let is_there = |n| kernel.user(Command::Lookup, &[], &numbered(n, value_bytes), 0).0 == 0;
            let theirs = false_positives(ASKED, is_there);
            assert!((theirs - theory).abs() <= chance, "the kernel's {theirs:.5}; {context}");
        }
        view.clear();
        assert!(!view.contains(&numbered(0, value_bytes)), "cleared");
    }
}

/// The map that the signal handler pushes to, and what it pushed last.
static MAP: AtomicPtr<Descriptor> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);
const HANDLED_FROM: u64 = 1 << 40;

extern "C" fn on_signal(_: i32) {
    // SAFETY: whoever sends the signal keeps the map until no thread gets one any more.
    let map = unsafe { &*MAP.load(Ordering::Relaxed) };
    let number = HANDLED_FROM + HANDLED.fetch_add(1, Ordering::Relaxed);
    linked::map_push(map, &number.to_le_bytes(), 0);
}

/// Afterwards everything that anybody pushed is found.
#[test]
fn nothing_pushed_is_missed_under_eight_threads_and_signals() {
    const EACH: u64 = 20_000;
    const DEADLINE: Duration = Duration::from_secs(60);
    let segment = segment(&[filter(8, 100_000, 15)]);
    let descriptor = segment.descriptor(0);
    MAP.store(std::ptr::from_ref(descriptor).cast_mut(), Ordering::Relaxed);
    signals::interrupted(8, libc::SIGURG, on_signal, |thread| {
        // Who sends signals may have no CPU for a while.
        let start = Instant::now();
        let enough =
            |n: u64| n >= EACH && (HANDLED.load(Ordering::Relaxed) > 200 || start.elapsed() > DEADLINE);
        for n in (0..).take_while(|n| !enough(*n)) {
            // Again and again the same, once they are all pushed.
            let value = (thread << 32 | (n % EACH)).to_le_bytes();
            assert_eq!(linked::map_push(descriptor, &value, 0), 0);
            assert_eq!(linked::map_peek(descriptor, &mut value.clone()), 0, "missed at once");
        }
    });
    let pushed = (0..8u64).flat_map(|thread| (0..EACH).map(move |n| thread << 32 | n));
    let by_handlers = HANDLED_FROM..HANDLED_FROM + HANDLED.load(Ordering::Relaxed);
    assert!(by_handlers.clone().count() > 200, "the handlers did nothing");
    for number in pushed.chain(by_handlers) {
        assert!(segment.map(0).contains(&number.to_le_bytes()), "{number:#x} is missed");
    }
}
