//! Descriptors that somebody has made up: nothing panics, nothing takes long, and what is broken is left out.

use std::cell::Cell;

use weir_ust::providers;

const BASE: u64 = 0x10000;

/// Memory of words, of which one may be changed.
struct Words(Vec<u64>);

impl Words {
    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let Some(at) = address.checked_sub(BASE) else { return false };
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(to.len())?));
        found.map(|bytes| to.copy_from_slice(bytes)).is_some()
    }

    fn found(&self) -> Vec<weir_ust::Provider> {
        let all = BASE..BASE + 8 * self.0.len() as u64;
        providers(&|at, to| self.read(at, to), std::slice::from_ref(&all))
    }
}

/// A provider with an event of one field: an integer of 4 bytes.
fn one() -> Words {
    let at = |word: u64| BASE + 8 * word;
    let mut words = vec![0u64; 64];
    let mut put = |from: usize, what: &[u64]| words[from..from + what.len()].copy_from_slice(what);
    // The provider, its events, the event, its class, the class's fields, the field, its type; the name "abc", and an empty text.
    put(0, &[40, at(60), at(6), 1 | 3 << 32, 0]);
    put(6, &[at(8)]);
    put(8, &[48, at(60), at(0), at(16), 0, 0]);
    put(16, &[48, at(24), 1, 0x1234, at(61), at(0)]);
    put(24, &[at(26)]);
    put(26, &[32, at(60), at(32), 0]);
    put(32, &[24 << 32, 32 | 4 << 32 | 1 << 48, 10]);
    put(60, &[0x63_6261]);
    Words(words)
}

#[test]
fn a_whole_one_is_read() {
    let found = one().found();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].events.len(), &found[0].left_out), (1, &Vec::new()));
    let event = &found[0].events[0];
    assert_eq!((event.name.as_str(), event.probe, event.fields.len()), ("abc", 0x1234, 1));
    assert_eq!(event.fields[0].ty, Ok(weir_event::schema::Type::Int { bytes: 4, signed: true }));
}

#[test]
fn any_word_may_be_anything() {
    let hostile = [
        0,
        1,
        8,
        BASE,
        BASE + 4,
        u64::MAX,
        u64::MAX - 7,
        1 << 63,
        u64::from(u32::MAX),
        0xffff_ffff_0000_0003,
    ];
    for at in 0..64 {
        for word in hostile {
            let mut words = one();
            words.0[at] = word;
            for found in words.found() {
                assert!(found.events.len() <= 65536 && found.name.len() <= 256);
            }
        }
    }
}

/// A provider that says it has as many events as there may be, each of which is the same with as many fields as there may be.
#[test]
fn what_is_named_again_and_again_is_read_so_often_and_no_more() {
    let (mut words, reads) = (one(), Cell::new(0u64));
    words.0[3] = 65536 | 3 << 32;
    words.0[18] = 256;
    let all = BASE..BASE + 512;
    let bytes: Vec<u8> = words.0.iter().flat_map(|word| word.to_le_bytes()).collect();
    // Everything behind the end is pointers to the event, and to the field.
    let read = |at: u64, to: &mut [u8]| {
        reads.set(reads.get() + 1);
        match at.checked_sub(BASE) {
            Some(at) if (at as usize) + to.len() <= bytes.len() => {
                to.copy_from_slice(&bytes[at as usize..at as usize + to.len()]);
            }
            _ => to.iter_mut().zip((BASE + 8 * 26).to_le_bytes()).for_each(|(to, byte)| *to = byte),
        }
        true
    };
    let found = providers(&read, std::slice::from_ref(&all));
    assert!(found.len() <= 1 && reads.get() <= 1 << 26, "{} reads", reads.get());
}
