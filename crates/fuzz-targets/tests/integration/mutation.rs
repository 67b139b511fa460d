//! Mutations of seeds: bits, bytes and numbers changed, parts cut, repeated, moved or joined.
//!
//! In: seeds, what they consist of, and where a sequence of random numbers stands. Out: an input, which depends on these alone.
//!
//! libFuzzer finds by what an input reaches which changes are worth more of them. There is nothing of that here; instead, many changes
//! are such that a reader has something to read behind them: whole lines, instructions or steps, with the lengths kept right.

use testkit::random;

/// What the inputs of a target consist of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Anything, with offsets in it.
    File,
    Lines,
    /// So many bytes, then parts of one size; bytes may be left over at the end.
    Parts {
        before: usize,
        bytes: usize,
    },
    /// Two bytes with the length of some lines, these lines, and a file.
    LinesAndFile,
}

/// What readers may take for a count, a size or an offset, and get wrong.
const NUMBERS: [u64; 8] =
    [0, 1, u64::MAX, u64::MAX - 7, i64::MAX as u64, 1 << 63, u32::MAX as u64, i32::MAX as u64];
/// The same as text.
const TEXTS: [&str; 6] = ["0", "-1", "64", "4294967295", "9223372036854775808", "99999999999999999999"];

/// One of the seeds, changed in up to four ways.
pub(crate) fn mutated(seeds: &[&[u8]], shape: Shape, state: &mut u64) -> Vec<u8> {
    let seed = seeds[below(state, seeds.len())];
    let changes = 1 + below(state, 4);
    let style = below(state, 4);
    if style == 0 {
        let mut input = seed.to_vec();
        (0..changes).for_each(|_| cut_or_join(&mut input, seeds, state));
        return input;
    }
    match shape {
        // In files with offsets, hardly anything is in its place behind a cut.
        Shape::File => changed(seed, changes, state),
        _ if style == 1 => changed(seed, changes, state),
        Shape::Lines => rearranged(&lines(seed), &lines(seeds[below(state, seeds.len())]), changes, state),
        Shape::Parts { before, bytes } => {
            let parts = |input| split(input, before, bytes);
            let ((head, body, tail), other) = (parts(seed), parts(seeds[below(state, seeds.len())]).1);
            [head, &rearranged(&body, &other, changes, state), tail].concat()
        }
        Shape::LinesAndFile => {
            let (text, file) = text_and_file(seed);
            let (other, other_file) = text_and_file(seeds[below(state, seeds.len())]);
            let (text, file) = match below(state, 4) {
                0 => (text.to_vec(), changed(file, changes, state)),
                1 => (text.to_vec(), rearranged(&[file], &[other_file], changes, state)),
                _ => (rearranged(&lines(text), &lines(other), changes, state), file.to_vec()),
            };
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            [&length.to_le_bytes()[..], &text, &file].concat()
        }
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The bytes before the parts, the parts, and the bytes that are left over.
fn split(input: &[u8], before: usize, bytes: usize) -> (&[u8], Vec<&[u8]>, &[u8]) {
    let (head, rest) = input.split_at(before.min(input.len()));
    let (body, tail) = rest.split_at(rest.len() / bytes * bytes);
    (head, body.chunks(bytes).collect(), tail)
}

fn text_and_file(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = input.split_first_chunk().expect("every seed begins with a length");
    rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()))
}

/// Parts left out, repeated, swapped, taken from `other`, or changed in themselves.
fn rearranged(parts: &[&[u8]], other: &[&[u8]], changes: usize, state: &mut u64) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
    for _ in 0..changes {
        if parts.is_empty() {
            break;
        }
        let at = below(state, parts.len());
        match below(state, 8) {
            0 => drop(parts.remove(at)),
            1 => parts.insert(at, parts[at].clone()),
            2 => {
                let with = below(state, parts.len());
                parts.swap(at, with);
            }
            3 if !other.is_empty() => parts.insert(at, other[below(state, other.len())].to_vec()),
            4..6 => change(&mut parts[at], state),
            _ => {
                let begin = below(state, parts[at].len() + 1);
                replace_decimal(&mut parts[at], begin, state);
            }
        }
    }
    parts.concat()
}

/// As long as it was.
fn changed(input: &[u8], changes: usize, state: &mut u64) -> Vec<u8> {
    let mut input = input.to_vec();
    (0..changes).for_each(|_| change(&mut input, state));
    input
}

fn change(input: &mut [u8], state: &mut u64) {
    let at = below(state, input.len() + 1);
    match below(state, 4) {
        0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(state, 8)),
        1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = below(state, 256) as u8),
        _ => replace_number(input, at, state),
    }
}

fn cut_or_join(input: &mut Vec<u8>, seeds: &[&[u8]], state: &mut u64) {
    let (at, end) = range(input.len(), state);
    match below(state, 6) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => {
            let part = input[at..end].to_vec();
            input.splice(end..end, part);
        }
        3 => {
            let other = seeds[below(state, seeds.len())];
            let (from, to) = range(other.len(), state);
            // Nothing behind it, or what was there.
            let rest = if below(state, 2) == 0 { &[] } else { &input[end..] };
            *input = [&input[..at], &other[from..to], rest].concat();
        }
        4 => replace_decimal(input, at, state),
        _ => change(input, state),
    }
}

/// A number of 1, 2, 4 or 8 bytes, three times of four where numbers of that size begin.
fn replace_number(input: &mut [u8], at: usize, state: &mut u64) {
    let bytes = 1 << below(state, 4);
    let at = if below(state, 4) == 0 { at } else { at / bytes * bytes };
    let number = NUMBERS[below(state, NUMBERS.len())].to_le_bytes();
    input.iter_mut().skip(at).take(bytes).zip(number).for_each(|(old, new)| *old = new);
}

/// The first digits of text at or after `at`; a number of bytes in what is no text, or has none there.
fn replace_decimal(input: &mut Vec<u8>, at: usize, state: &mut u64) {
    let digit = input[at..].iter().position(u8::is_ascii_digit).map(|from| at + from);
    let Some(begin) = digit.filter(|_| !input.contains(&0)) else {
        return replace_number(input, at, state);
    };
    let digits = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    input.splice(begin..begin + digits, TEXTS[below(state, TEXTS.len())].bytes());
}

/// Two places among `length` bytes, at most 256 apart three times of four.
fn range(length: usize, state: &mut u64) -> (usize, usize) {
    let at = below(state, length + 1);
    let most = length - at;
    let most = if below(state, 4) == 0 { most } else { most.min(256) };
    (at, at + below(state, most + 1))
}

fn below(state: &mut u64, limit: usize) -> usize {
    // The upper half: the lower bits of xorshift64* are the weaker ones.
    (random::next(state) >> 32) as usize % limit
}
