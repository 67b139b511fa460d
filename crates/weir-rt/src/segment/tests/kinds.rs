//! The table that the tests of maps go through: one row for each kind of map.
//!
//! A new kind is a row here, its rules in `model.rs`, and where it has an operation of its own, that in `oracle.rs`.

use weir_ebpf::MapKind;

/// Who asks: user space, as through bpf(2), or a program, through a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Via {
    User,
    Program,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Lookup,
    Update,
    Delete,
    NextKey,
    LookupAndDelete,
    Push,
    Pop,
    Peek,
}

/// What holds of the contents after an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Law {
    /// They are the model's.
    Exact,
    /// What comes out is the model's; there are no keys to walk.
    InOrder,
    /// A new key may push out others. weir's map gives up one, when it is full; the kernel's may do so earlier.
    Evicts,
    /// What was pushed is found.
    NoFalseNegatives,
    /// They are the model's, and in its order.
    Ordered,
    /// Nothing is in it, nor can user space put anything there: rings, whose own tests are in `ring.rs`; stacks, which
    /// programs put there; what the kernel knows by a descriptor; devices, CPUs and sockets. Maps that hold maps are compared in `held.rs`.
    NoElements,
}

/// One kind.
pub(super) struct Row {
    pub(super) kind: MapKind,
    /// Bytes of key and value, entries.
    pub(super) shapes: &'static [(u32, u32, u32)],
    pub(super) operations: &'static [(Via, Op)],
    pub(super) law: Law,
}

const EVERYTHING: &[(Via, Op)] = &[
    (Via::User, Op::Lookup),
    (Via::User, Op::Update),
    (Via::User, Op::Delete),
    (Via::User, Op::NextKey),
    (Via::User, Op::LookupAndDelete),
    (Via::Program, Op::Lookup),
    (Via::Program, Op::Update),
    (Via::Program, Op::Delete),
];
/// The verifier lets no program delete from an array.
const ALL_BUT_DELETE: &[(Via, Op)] = &[
    (Via::User, Op::Lookup),
    (Via::User, Op::Update),
    (Via::User, Op::Delete),
    (Via::User, Op::NextKey),
    (Via::User, Op::LookupAndDelete),
    (Via::Program, Op::Lookup),
    (Via::Program, Op::Update),
];
const FROM_USER_SPACE: &[(Via, Op)] = &[
    (Via::User, Op::Lookup),
    (Via::User, Op::Update),
    (Via::User, Op::Delete),
    (Via::User, Op::NextKey),
    (Via::User, Op::LookupAndDelete),
];

/// Pushes twice, so that these maps are full as often as empty.
const ELEMENTS: &[(Via, Op)] = &[
    (Via::User, Op::Lookup),
    (Via::User, Op::Update),
    (Via::User, Op::Update),
    (Via::User, Op::Delete),
    (Via::User, Op::NextKey),
    (Via::User, Op::LookupAndDelete),
    (Via::Program, Op::Push),
    (Via::Program, Op::Push),
    (Via::Program, Op::Pop),
    (Via::Program, Op::Peek),
];

const FILTER: &[(Via, Op)] = &[
    (Via::User, Op::Lookup),
    (Via::User, Op::Update),
    (Via::User, Op::Delete),
    (Via::User, Op::NextKey),
    (Via::User, Op::LookupAndDelete),
    (Via::Program, Op::Push),
    (Via::Program, Op::Peek),
];

/// Values of at most 8 bytes are changed in place, larger ones replaced: both are here, and sizes that are no words.
#[rustfmt::skip]
pub(super) const KINDS: &[Row] = &[
    Row { kind: MapKind::Array,       shapes: &[(4, 4, 1), (4, 8, 7), (4, 20, 64)],                operations: ALL_BUT_DELETE,  law: Law::Exact },
    Row { kind: MapKind::ProgArray,   shapes: &[(4, 4, 4), (4, 4, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::PerCpuArray, shapes: &[(4, 8, 5), (4, 24, 1), (4, 528, 3)],               operations: ALL_BUT_DELETE,  law: Law::Exact },
    Row { kind: MapKind::Hash,        shapes: &[(1, 1, 3), (4, 4, 1), (8, 8, 64), (13, 12, 33), (8, 16, 5), (64, 128, 100), (512, 1, 10)],
                                                                                                   operations: EVERYTHING,      law: Law::Exact },
    Row { kind: MapKind::PerCpuHash,  shapes: &[(8, 8, 20), (3, 16, 1), (24, 528, 9)],             operations: EVERYTHING,      law: Law::Exact },
    Row { kind: MapKind::Queue,       shapes: ELEMENT_SHAPES,                                      operations: ELEMENTS,        law: Law::InOrder },
    Row { kind: MapKind::Stack,       shapes: ELEMENT_SHAPES,                                      operations: ELEMENTS,        law: Law::InOrder },
    Row { kind: MapKind::LruHash,     shapes: &[(4, 4, 1), (8, 8, 64), (13, 40, 33)],              operations: EVERYTHING,      law: Law::Evicts },
    Row { kind: MapKind::LruPerCpuHash, shapes: &[(8, 8, 20), (3, 16, 1), (24, 528, 9)],           operations: EVERYTHING,      law: Law::Evicts },
    Row { kind: MapKind::BloomFilter, shapes: &[(0, 1, 1), (0, 4, 100), (0, 8, 1000), (0, 29, 64)], operations: FILTER,         law: Law::NoFalseNegatives },
    Row { kind: MapKind::LpmTrie,     shapes: &[(8, 8, 64), (5, 1, 4), (20, 40, 33), (7, 4, 1), (260, 16, 20)], operations: EVERYTHING, law: Law::Ordered },
    Row { kind: MapKind::PerfEventArray, shapes: &[(4, 4, 4), (4, 4, 1)],                          operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::StackTrace,  shapes: &[(4, 8, 4), (4, 1016, 3)],                          operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::ArrayOfMaps, shapes: &[(4, 4, 4)],                                        operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::HashOfMaps,  shapes: &[(4, 4, 4)],                                        operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::CgroupArray, shapes: &[(4, 4, 4), (4, 4, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::DevMap,      shapes: &[(4, 4, 4), (4, 8, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::SockMap,     shapes: &[(4, 4, 4), (4, 8, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::CpuMap,      shapes: &[(4, 4, 4), (4, 8, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::XskMap,      shapes: &[(4, 4, 4), (4, 4, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::SockHash,    shapes: &[(4, 4, 4), (16, 8, 1)],                            operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::DevMapHash,  shapes: &[(4, 4, 4), (4, 8, 1)],                             operations: FROM_USER_SPACE, law: Law::NoElements },
    Row { kind: MapKind::RingBuf,     shapes: &[(0, 0, 4096)],                                     operations: FROM_USER_SPACE, law: Law::NoElements },
];

const ELEMENT_SHAPES: &[(u32, u32, u32)] =
    &[(0, 8, 1), (0, 1, 2), (0, 4, 3), (0, 13, 7), (0, 40, 64), (0, 528, 5)];

pub(super) fn row(kind: MapKind) -> &'static Row {
    KINDS.iter().find(|row| row.kind == kind).unwrap_or_else(|| panic!("no row for {kind:?}"))
}

#[test]
fn every_kind_has_a_row() {
    let named: Vec<MapKind> = MapKind::ALL.into_iter().map(|kind| row(kind).kind).collect();
    assert_eq!(named, MapKind::ALL);
    assert_eq!(KINDS.len(), MapKind::ALL.len());
}
