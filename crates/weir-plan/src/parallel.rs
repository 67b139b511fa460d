//! Work on parts of one thing, a thread each. The result is the same as in one thread: parts keep their order.

use std::ops::Range;
use std::thread;

/// Threads that planning uses: more would be in the way of the target.
const THREADS_MAX: usize = 4;

/// `0..length` in as many parts as there are threads for, each of at least `part_min`.
pub(crate) fn parts(length: usize, part_min: usize) -> Vec<Range<usize>> {
    // To ask reads files.
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let wanted = (length / part_min).clamp(1, THREADS_MAX);
    let count = if wanted > 1 { wanted.min(cores()) } else { 1 };
    let end = |part: usize| length * part / count;
    (0..count).map(|part| end(part)..end(part + 1)).collect()
}

/// `work` of each part, the first one on this thread.
pub(crate) fn map<T: Send>(parts: Vec<Range<usize>>, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut all = vec![work(first)];
        all.extend(others.into_iter().map(|other| match other.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_in_order() {
        for (length, least) in [(0, 1), (1, 1), (7, 2), (1000, 1), (10, 100)] {
            let parts = parts(length, least);
            assert!(parts.len() <= THREADS_MAX);
            let found: Vec<usize> = map(parts, |part| part.collect::<Vec<_>>()).concat();
            assert_eq!(found, (0..length).collect::<Vec<_>>(), "{length} in parts of {least}");
        }
    }
}
