//! Whatever the bytes, reading answers: an object that holds together, or an error. Mutants of real objects and of
//! ours, from a fixed seed; every truncation of a small one.

use crate::corpus;

use weir_ebpf::asm;
use weir_ebpf::elf::{self, ObjectFile};
use weir_ebpf::insn::pseudo;

/// Mutants of each object.
const MUTANTS: usize = 1500;

/// Numbers that are at the edge of something.
const EDGES: [u64; 14] =
    [0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX - 7, u64::MAX];

/// A generator of numbers (xorshift64*; Vigna 2016), so that a seed gives the same mutants everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }
}

/// One to four changes, each of a kind that breaks other things.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 | 3 => {
                let width = 1 << random.below(4);
                let at = at / width * width;
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
            4 => {
                // The table of sections stands at the end, and means most.
                let headers = bytes.len().saturating_sub(64 * 36);
                let at = headers + random.below(bytes.len() - headers);
                bytes[at] = random.next() as u8;
            }
            5 => {
                let (from, count) = (random.below(bytes.len()), 1 + random.below(64));
                let part: Vec<u8> = bytes.iter().skip(from).take(count).copied().collect();
                let end = (at + part.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&part[..end - at]);
            }
            _ if random.below(8) == 0 => bytes.truncate(at.max(1)),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

/// What holds of every object that was read.
fn holds_together(file: &ObjectFile) {
    assert_eq!(file.programs.len(), file.object.programs.len());
    assert_eq!(file.maps.len(), file.object.maps.len());
    for (index, program) in file.object.programs.iter().enumerate() {
        for (slot, insn) in program.insns.iter().enumerate() {
            if let Some(line) = file.source_line(index, slot) {
                assert!(line.text.len() <= 512 && line.file.len() <= 512);
            }
            // What names a map without having been relocated is the verifier's to refuse.
            if insn.is_wide() && insn.src == pseudo::MAP_INDEX_VALUE && slot + 1 < program.insns.len() {
                let _ = asm::insn_text(&program.insns, slot, &file.object.maps);
            }
        }
    }
    for (map, origin) in file.object.maps.iter().zip(&file.maps) {
        assert!(origin.initial.as_ref().is_none_or(|bytes| bytes.len() == map.value_bytes as usize));
    }
    let _ = elf::write(file);
}

fn ours() -> Vec<u8> {
    let text = "map m hash key 8 value 8 entries 1\nmap g array key 4 value 24 entries 1\n\
                program \"p\" probe\nr1 = map[m] ll\nr2 = map[g][0] + 0x8 ll\nr0 = *(u64 *)(r2 + 0x0)\nexit\n\
                program \"q\" controller\nr0 = 0x1\nif r0 == 0x1 goto +0x0\nexit\n";
    elf::write(&ObjectFile::of(asm::parse(text).unwrap())).unwrap()
}

#[test]
fn mutants_are_read_or_refused() {
    let mut random = Random(0x5eed_0b1e);
    let mut seeds: Vec<Vec<u8>> = corpus::objects("mutants").iter().map(|(_, bytes)| bytes.clone()).collect();
    // Ours count more where there is no compiler: at least 6,000 in any case.
    let rounds = if seeds.is_empty() { 4 } else { 1 };
    seeds.extend((0..rounds).map(|_| ours()));
    let (mut read, mut refused) = (0, 0);
    for seed in &seeds {
        for _ in 0..MUTANTS {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut random);
            match elf::read(&bytes) {
                Ok(file) => {
                    holds_together(&file);
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(read + refused >= 6000);
    // Both must be common, or the mutants test little.
    assert!(read > refused / 20 && refused > read / 20, "{read} read, {refused} refused");
}

#[test]
fn truncations_are_refused() {
    let whole = ours();
    for length in 0..whole.len() {
        assert!(elf::read(&whole[..length]).is_err(), "{length} bytes");
    }
}

/// A file in which everything that can be shared is: each of `functions` symbols is the whole of one code section.
fn overlapping(functions: usize, slots: usize) -> Vec<u8> {
    let exits = "exit\n".repeat(slots);
    let object = asm::parse(&format!("program \"p\" probe\n{exits}")).unwrap();
    let mut bytes = elf::write(&ObjectFile::of(object)).unwrap();
    // The table of sections stands at the end; the table of symbols is the last but one. It is moved behind all.
    let headers = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let table = bytes.len() - 128;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (offset, size) = (word(&bytes, table + 24), word(&bytes, table + 32));
    let symbols = bytes[offset..offset + size].to_vec();
    let (empty, function) = (&symbols[..24], &symbols[size - 24..]);
    let mut headers = bytes.split_off(headers);
    let moved = bytes.len();
    bytes.extend(empty);
    bytes.extend(function.repeat(functions));
    let at = headers.len() - 128;
    headers[at + 24..at + 32].copy_from_slice(&(moved as u64).to_le_bytes());
    headers[at + 32..at + 40].copy_from_slice(&(24 * (functions as u64 + 1)).to_le_bytes());
    let start = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&start.to_le_bytes());
    bytes.extend(headers);
    bytes
}

#[test]
fn programs_that_share_their_code_are_bounded() {
    assert_eq!(elf::read(&overlapping(3, 100)).unwrap().object.programs.len(), 3);
    // 4 GiB of instructions, if each program had its own.
    let message = elf::read(&overlapping(10_000, 50_000)).unwrap_err().to_string();
    assert!(message.contains("instructions; the limit is 1048576"), "{message}");
}
