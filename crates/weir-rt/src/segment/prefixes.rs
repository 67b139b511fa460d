//! The prefixes of an LPM trie, in the order in which the kernel lists them.
//!
//! In: entries as the hash has them (length, bits, zeros behind them) and the keys as they were given. Out: the same,
//! ordered: what extends a prefix comes before it, and of two that neither extends, the one with a 0 where they differ.
//! That is a trie walked children first.

use std::cmp::Ordering;

/// Length in bits, at most as many as there are (whoever wrote the segment may say more), and bits.
fn parts(prefix: &[u8]) -> (u32, &[u8]) {
    let (length, bits) = prefix.split_at(4);
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
    (length.min(bits.len() as u32 * 8), bits)
}

/// Which of two prefixes comes first.
pub(super) fn order(left: &[u8], right: &[u8]) -> Ordering {
    let ((left_length, left_bits), (right_length, right_bits)) = (parts(left), parts(right));
    let common = common_bits(left_bits, right_bits).min(left_length).min(right_length);
    if common == left_length || common == right_length {
        // One extends the other, or they are the same.
        return right_length.cmp(&left_length);
    }
    bit(left_bits, common).cmp(&bit(right_bits, common))
}

/// True if `given` has the bits of `prefix`: it may be the key that the prefix was made of.
pub(super) fn is_of(prefix: &[u8], given: &[u8]) -> bool {
    let ((length, bits), (given_length, given_bits)) = (parts(prefix), parts(given));
    length == given_length && common_bits(bits, given_bits) >= length
}

fn common_bits(left: &[u8], right: &[u8]) -> u32 {
    let differ = left.iter().zip(right).position(|(left, right)| left != right);
    match differ {
        Some(at) => at as u32 * 8 + (left[at] ^ right[at]).leading_zeros(),
        None => left.len().min(right.len()) as u32 * 8,
    }
}

fn bit(bits: &[u8], at: u32) -> bool {
    bits[at as usize / 8] & (0x80 >> (at % 8)) != 0
}
