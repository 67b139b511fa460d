//! The smallest file with tracepoints, byte by byte: code, a semaphore, tables, the two sections of notes.
//!
//! Everything lies in one segment, at its offset in the file plus `BASE`, which is executable and writable.

/// Link address of the file's first byte.
pub(crate) const BASE: u64 = 0x40_0000;
/// Where the code is; sixty-four nops of five bytes, one every 8 bytes.
pub(crate) const CODE: u64 = BASE + 0x200;
const CODE_BYTES: usize = 8 * 64;
pub(crate) const SEMAPHORE: u64 = CODE + CODE_BYTES as u64;
/// Where tables are.
pub(crate) const TABLES: u64 = SEMAPHORE + 64;

/// Notes and tables of a file.
#[derive(Clone, Default)]
pub(crate) struct Image {
    pub(crate) probes: Vec<u8>,
    pub(crate) fields: Vec<u8>,
    pub(crate) tables: Vec<u8>,
}

impl Image {
    /// A place, and what is said of it.
    #[must_use]
    pub(crate) fn with(mut self, address: u64, arguments: &str, records: &[Vec<u8>]) -> Image {
        self.probes.extend(probe(address, arguments));
        self.fields.extend(fields(1, address, 6, &records.concat()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0; (CODE - BASE) as usize];
        file.extend([0x0f, 0x1f, 0x44, 0, 0, 0x90, 0x90, 0x90].repeat(CODE_BYTES / 8));
        file.resize((TABLES - BASE) as usize, 0);
        file.extend(&self.tables);
        let loaded = file.len() as u64;
        let names = b"\0.note.stapsdt\0.note.weir\0.names\0";
        let mut headers = vec![0; 64];
        for (name, kind, contents) in [(1u32, 7u32, &self.probes[..]), (15, 7, &self.fields), (26, 3, names)]
        {
            headers.extend(header(name, kind, file.len() as u64, contents.len() as u64));
            file.extend(contents);
        }
        let sections = file.len() as u64;
        file.extend(&headers);
        let start = start(sections, loaded);
        file[..start.len()].copy_from_slice(&start);
        file
    }
}

/// The ELF header and one program header.
fn start(sections: u64, loaded: u64) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [CODE, 64, sections] {
        out.extend(word.to_le_bytes());
    }
    out.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 3, 0]);
    out.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for word in [0, BASE, BASE, loaded, loaded, 0x1000] {
        out.extend(word.to_le_bytes());
    }
    out
}

fn header(name: u32, kind: u32, offset: u64, bytes: u64) -> Vec<u8> {
    let mut out = [name.to_le_bytes(), kind.to_le_bytes()].concat();
    for word in [0, 0, offset, bytes, 0, 4, 0] {
        out.extend(word.to_le_bytes());
    }
    out
}

fn note(owner: &str, kind: u32, descriptor: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for half in [owner.len() as u32 + 1, descriptor.len() as u32, kind] {
        out.extend(half.to_le_bytes());
    }
    out.extend(owner.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(descriptor);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// The note that every tracer knows, of `shop:sale`.
pub(crate) fn probe(address: u64, arguments: &str) -> Vec<u8> {
    let mut descriptor = [address.to_le_bytes(), [0; 8], SEMAPHORE.to_le_bytes()].concat();
    descriptor.extend(format!("shop\0sale\0{arguments}\0").as_bytes());
    note("stapsdt", 3, &descriptor)
}

/// The note of the fields.
/// The level's word says more in its second byte.
pub(crate) fn fields(version: u32, address: u64, level: u64, records: &[u8]) -> Vec<u8> {
    let mut descriptor = [address.to_le_bytes(), level.to_le_bytes()].concat();
    descriptor.extend(records);
    note("weir", version, &descriptor)
}

pub(crate) fn record(kind: u8, form: u8, bytes: i8, count: u32, table: u64, name: &str) -> Vec<u8> {
    let mut out = vec![kind, form, bytes as u8, 0];
    out.extend(count.to_le_bytes());
    out.extend(table.to_le_bytes());
    out.extend(name.as_bytes());
    out.push(0);
    out
}

pub(crate) fn row(first: i64, last: i64, name: &str) -> Vec<u8> {
    let mut out = [first.to_le_bytes(), last.to_le_bytes()].concat();
    out.extend(name.as_bytes());
    out.resize(64, 0);
    out
}

/// One of every kind of field.
pub(crate) fn everything() -> Image {
    let tables = [
        row(0, 0, "RED"),
        row(-9, 9, "rest"),
        row(0, 0, ""),
        row(4, 0xfc, "x"),
        row(8, 512 + 8, "ratio"),
        row(0, 0, ""),
    ];
    let records = [
        record(1, 0, -4, 0, 0, "id"),
        record(1, 1, 8, 0, 0, "flags"),
        record(1, 2, 8, 0, 0, "total"),
        record(1, 2, 4, 0, 0, "share"),
        record(2, 0, 1, 0, 0, "article"),
        record(3, 0, -2, 3, 0, "parts"),
        record(4, 3, 1, 0, 0, "remark"),
        record(5, 0, -4, 0, TABLES, "color"),
        record(6, 0, 0, 0, TABLES + 3 * 64, "place"),
    ];
    let arguments = "-4@%edi 8@%rsi 8@%rdx 4@$-1082130432 8@%rcx 8@%r8 8@%r9 8@%r10 -4@-8(%rbp) 8@8(%rsp)";
    Image { tables: tables.concat(), ..Image::default() }.with(CODE, arguments, &records)
}
