//! Samples and rates: what a filter remembers from event to event.

use weir_filter::Dialect;

use crate::reference::Ready;
use crate::reference::event::raise;
use crate::reference::generate::{Random, values};

/// How many of `count` events a filter keeps, in machine code and then in the interpreter, which go on with the same memory.
fn kept(text: &str, count: usize) -> (usize, usize) {
    let ready = Ready::of(text, Dialect::Weir).unwrap();
    let mut raised = raise(&values(&mut Random(1)));
    let compiled = (0..count).filter(|_| ready.compiled(&mut raised.frame)).count();
    let interpreted = (0..count).filter(|_| ready.interpreted(&mut raised.frame)).count();
    (compiled, interpreted)
}

#[test]
fn a_sample_is_exact() {
    assert_eq!(kept("1 sample 1/10", 1000), (100, 100));
    assert_eq!(kept("1 sample 3/10", 1000), (300, 300));
    assert_eq!(kept("1 sample 1/1", 7), (7, 7));
    assert_eq!(kept("0 sample 1/1", 7), (0, 0));
    // 1000 of the 1005 before are whole tens.
    assert_eq!(kept("1 sample 1/10", 5), (1, 0));
}

#[test]
fn a_rate_keeps_so_many_in_its_time() {
    // Both engines share an hour, unless one ends between them.
    let (compiled, interpreted) = kept("1 rate 5/h", 100);
    assert!(compiled == 5 && interpreted <= 5 || compiled + interpreted == 10, "{compiled} {interpreted}");
    let (compiled, interpreted) = kept("1 rate 500/h", 100);
    assert_eq!((compiled, interpreted), (100, 100));
}

#[test]
fn clauses_are_taken_in_order_and_count_what_the_condition_keeps() {
    let (compiled, _) = kept("1 sample 1/10 rate 5/h", 100);
    assert!((5..=10).contains(&compiled), "{compiled}");
    let (compiled, _) = kept("1 rate 50/h sample 1/10", 100);
    assert!((5..=10).contains(&compiled), "{compiled}");
    assert_eq!(kept("i64 != i64 || 0 sample 1/2", 100), (0, 0));
}

#[test]
fn threads_share_a_sample() {
    let ready = Ready::of("1 sample 1/4", Dialect::Weir).unwrap();
    let count = || {
        let mut raised = raise(&values(&mut Random(1)));
        (0..10_000).filter(|_| ready.compiled(&mut raised.frame)).count()
    };
    let all: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(all, 10_000);
}
