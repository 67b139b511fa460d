//! Both ways of BTF, and bytes that are none.

use crate::btf::ext::Ext;
use crate::btf::{Btf, Builder, Kind};

/// `struct point { int x; int y[3]; }`, a typedef of it, and a variable in `.data`.
fn sample() -> Btf {
    let mut builder = Builder::default();
    let int = builder.add("int", Kind::Int, 4, &[0x0100_0020]);
    let array = builder.add("", Kind::Array, 0, &[int, int, 3]);
    let (x, y) = (builder.string("x"), builder.string("y"));
    let point = builder.add("point", Kind::Struct, 16, &[x, int, 0, y, array, 32]);
    let typedef = builder.add("point_t", Kind::Typedef, point, &[]);
    let variable = builder.add("origin", Kind::Variable, typedef, &[1]);
    builder.add(".data", Kind::Section, 16, &[variable, 0, 16]);
    builder.finish()
}

/// `bytes`, where one part is wrong, are refused with a message that contains `part`.
fn refused(change: impl Fn(&mut Vec<u8>), part: &str) {
    let mut bytes = sample().to_bytes();
    change(&mut bytes);
    let error = Btf::parse(&bytes).expect_err(part);
    assert!(error.to_string().contains(part), "{part}: {error}");
}

#[test]
fn what_is_written_is_read_back() {
    let btf = sample();
    let bytes = btf.to_bytes();
    let read = Btf::parse(&bytes).unwrap();
    assert_eq!(read, btf);
    assert_eq!(read.to_bytes(), bytes);
}

#[test]
fn sizes_follow_typedefs_and_arrays() {
    let btf = sample();
    assert_eq!(
        (1..=6).map(|id| btf.size_of(id)).collect::<Vec<_>>(),
        [Some(4), Some(12), Some(16), Some(16), None, None]
    );
    assert_eq!(btf.section_variables(".data"), [5]);
    assert_eq!(btf.describe(3), "struct point");
    assert_eq!(btf.describe(4), "point_t");
}

#[test]
fn rings_of_types_end() {
    let mut builder = Builder::default();
    builder.add("a", Kind::Typedef, 2, &[]);
    builder.add("b", Kind::Typedef, 1, &[]);
    builder.add("", Kind::Array, 0, &[3, 3, 1]);
    let btf = builder.finish();
    assert_eq!((btf.resolve(1), btf.size_of(1), btf.size_of(3)), (None, None, None));
}

#[test]
fn arrays_past_32_bits_have_no_size() {
    let mut builder = Builder::default();
    let int = builder.add("int", Kind::Int, 4, &[0]);
    let array = builder.add("", Kind::Array, 0, &[int, int, 1 << 30]);
    assert_eq!(builder.finish().size_of(array), None);
}

#[test]
fn bytes_that_are_no_btf_are_refused() {
    refused(|bytes| bytes.truncate(7), "too few");
    refused(|bytes| bytes[0] = 0, "magic");
    refused(|bytes| bytes[2] = 9, "version");
    refused(|bytes| bytes[4] = 200, "header");
    refused(|bytes| bytes[15] = 0xff, "types");
    refused(|bytes| bytes.truncate(bytes.len() - 1), "strings");
    refused(|bytes| *bytes.last_mut().unwrap() = b'x', "zero byte");
    refused(|bytes| bytes[24 + 7] = 0x1f, "not known");
    refused(|bytes| bytes[24 + 16 + 24 + 4] = 99, "cut off");
}

#[test]
fn line_records_that_are_cut_off_are_refused() {
    let header = |lines: u32| {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend([24, 0, 0, 0, lines].iter().flat_map(|word: &u32| word.to_le_bytes()));
        bytes
    };
    let with = |words: &[u32]| {
        let mut bytes = header(words.len() as u32 * 4);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        Ext::parse(&bytes)
    };
    assert_eq!(with(&[16, 1, 1, 8, 2, 3, 5 << 10 | 7]).unwrap().lines[0].1[0].column, 7);
    for wrong in [&[16, 1, 2, 8, 2, 3, 4][..], &[16, 1, u32::MAX], &[8, 1, 1, 8, 2], &[16, 1], &[15, 1, 0]] {
        assert!(with(wrong).is_err(), "{wrong:?}");
    }
}
