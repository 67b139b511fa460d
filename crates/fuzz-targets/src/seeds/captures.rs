//! Seeds of capture files: each block of pcapng and most options, and each kind of classic file, in both byte orders.

use crate::seeds::{Seed, seed};

const CLASSIC: [(&str, u32); 3] =
    [("microseconds", 0xa1b2_c3d4), ("nanoseconds", 0xa1b2_3c4d), ("modified", 0xa1b2_cd34)];

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (order, is_big) in [("little", false), ("big", true)] {
        let file = File { is_big, bytes: Vec::new() };
        for (name, magic) in CLASSIC {
            seeds.push(seed("pcapng", format!("classic-{name}-{order}"), classic(file.clone(), magic).bytes));
        }
        seeds.push(seed("pcapng", format!("packets-{order}"), packets(file.clone()).bytes));
        seeds.push(seed("pcapng", format!("others-{order}"), others(file.clone()).bytes));
        let both = others(packets(file)).bytes;
        seeds.push(seed("pcapng", format!("sections-{order}"), both));
    }
    seeds
}

/// A file in one byte order, to which more is added.
#[derive(Clone)]
struct File {
    is_big: bool,
    bytes: Vec<u8>,
}

impl File {
    fn number(mut self, bytes: usize, number: u64) -> File {
        match self.is_big {
            true => self.bytes.extend_from_slice(&number.to_be_bytes()[8 - bytes..]),
            false => self.bytes.extend_from_slice(&number.to_le_bytes()[..bytes]),
        }
        self
    }

    fn words(self, words: &[u32]) -> File {
        words.iter().fold(self, |file, word| file.number(4, (*word).into()))
    }

    fn padded(mut self, bytes: &[u8]) -> File {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// An option of bytes.
    fn option(self, code: u64, value: &[u8]) -> File {
        self.number(2, code).number(2, value.len() as u64).padded(value)
    }

    /// An option that is a number of so many bytes.
    fn option_of(self, code: u64, bytes: usize, number: u64) -> File {
        self.number(2, code).number(2, bytes as u64).number(bytes, number)
    }

    fn block(self, kind: u32, body: impl FnOnce(File) -> File) -> File {
        let body = body(File { is_big: self.is_big, bytes: Vec::new() }).bytes;
        let length = 12 + body.len() as u32;
        self.words(&[kind, length]).padded(&body).words(&[length])
    }

    fn section(self, options: impl FnOnce(File) -> File) -> File {
        self.block(0x0a0d_0d0a, |body| {
            options(body.words(&[0x1a2b_3c4d]).number(2, 1).number(2, 0).number(8, u64::MAX))
        })
    }

    fn interface(self, snaplen: u32, options: impl FnOnce(File) -> File) -> File {
        self.block(1, |body| options(body.number(2, 1).number(2, 0).words(&[snaplen])))
    }
}

fn classic(file: File, magic: u32) -> File {
    let file = file.words(&[magic]).number(2, 2).number(2, 4).words(&[0, 0, 65_535, 1]);
    let more: &[u32] = if magic == CLASSIC[2].1 { &[3, 0] } else { &[] };
    (0..3).fold(file, |file, n| file.words(&[n, 5, 8, 60]).words(more).words(&[0x4500_0008, n]))
}

/// Packets of all three kinds.
fn packets(file: File) -> File {
    let file = file.section(|body| body.option(4, b"weir").option(1, b"seed").words(&[0]));
    let file = file.interface(64, |body| body.option(9, &[6]).option_of(14, 8, 7).words(&[0]));
    let file = file.interface(0, |body| body.option(2, b"eth0").option(9, &[0x8a]));
    let enhanced = |file: File, interface| {
        file.block(6, |body| {
            let body = body.words(&[interface, 0x0005_0000, 1, 5, 60]).padded(b"\x45\0\0\x05\x06");
            let body = body.option_of(2, 4, 0x0100_0202).option(3, &[2, 1, 2, 3, 4]).option_of(4, 8, 3);
            let body = body.option_of(5, 8, 4).option_of(6, 4, 5).option(7, &[1, 0, 0, 0, 0, 0, 0, 0, 2]);
            body.option_of(8, 8, 6).option(1, b"why").words(&[0])
        })
    };
    let file = enhanced(enhanced(file, 1), 0).block(3, |body| body.words(&[3]).padded(&[1, 2, 3]));
    let file = file.block(6, |body| body.words(&[0, 0, 9, 2, 2]).padded(&[1, 2]));
    file.block(2, |body| {
        body.number(2, 1).number(2, 3).words(&[0, 8, 1, 1]).padded(&[9]).option_of(2, 4, 1).words(&[0])
    })
}

/// Blocks that are no packets, and an interface that says all.
fn others(file: File) -> File {
    let file = file.section(|body| body).interface(0, |body| {
        let body = body.option(2, b"eth0").option(3, b"card").option(4, &[10; 8]).option(5, &[1; 17]);
        let body = body.option(6, &[2; 6]).option(7, &[3; 8]).option_of(8, 8, 100).option(11, b"\0tcp");
        let body = body.option(12, b"Linux").option(13, &[4]).option(15, b"hw").option_of(16, 8, 5);
        body.option_of(17, 8, 6).option(18, b"UTC").words(&[0])
    });
    let file = file.block(4, |body| {
        let body =
            body.option(1, b"\x7f\0\0\x01lo\0localhost\0").option(2, &[&[0; 16][..], b"six\0"].concat());
        let body = body.option(3, b"\x01\x02\x03\x04\x05\x06m\0").words(&[0]);
        body.option(2, b"dns").option(3, &[9; 4]).option(4, &[8; 16]).words(&[0])
    });
    let file = file.block(5, |body| {
        let body = body.words(&[0, 0, 9]).option_of(2, 8, 1 << 32).option_of(3, 8, 2 << 32);
        (4..9).fold(body, |body, code| body.option_of(code, 8, code)).words(&[0])
    });
    let file = file.block(10, |body| body.words(&[0x544c_534b, 3]).padded(b"key").option(1, b"of"));
    file.block(0xbad, |body| body.words(&[1, 2]))
        .block(0x4000_0bad, |body| body.words(&[1]))
        .block(77, |body| body)
}
