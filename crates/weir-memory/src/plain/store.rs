//! What a map holds, by kind.

use std::collections::{BTreeMap, HashMap, VecDeque};

use weir_ebpf::{MapKind, MapSpec};

/// Errors, as helpers answer them.
pub(super) const ENOENT: i64 = 2;
pub(super) const E2BIG: i64 = 7;
pub(super) const EEXIST: i64 = 17;
pub(super) const EINVAL: i64 = 22;
pub(super) const ENOSPC: i64 = 28;
pub(super) const EAGAIN: i64 = 11;

/// Flags of an update.
const ANY: u64 = 0;
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;
const LOCK: u64 = 4;

/// What stands before a record's bytes in a ring, which it takes up.
const RECORD_HEADER_BYTES: u64 = 8;

/// One map.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) spec: MapSpec,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// Values one after the other, each at a multiple of 8; also those of a hash, by slot.
    Array(Vec<u8>),
    Hash(Hash),
    /// Elements, the oldest first.
    Queue(VecDeque<Vec<u8>>),
    /// Bits, a power of two of them, of which a value sets some.
    Bloom(Vec<u64>),
    Ring(Ring),
    /// By index: the number of a program, or the index of a map and one.
    Numbers(HashMap<Vec<u8>, u32>),
    /// A map that is empty here, or that only helpers use which are not here.
    Nothing,
}

/// Keys, and the slot of the value of each.
#[derive(Debug, Default)]
pub(super) struct Hash {
    slots: HashMap<Vec<u8>, usize>,
    /// By slot: its key, and when it was used last.
    used: Vec<Option<(Vec<u8>, u64)>>,
    free: Vec<usize>,
    /// Of an LRU: slots by when they were used last, and the time.
    oldest: Option<BTreeMap<u64, usize>>,
    clock: u64,
    pub(super) values: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Records in the order of their reservation; none while one is written, or where it was discarded.
    records: VecDeque<(u64, State)>,
    consumed: u64,
    produced: u64,
}

#[derive(Debug)]
enum State {
    Open,
    Discarded,
    Done(Vec<u8>),
}

impl Store {
    pub(super) fn new(spec: &MapSpec) -> Store {
        let content = match spec.kind {
            kind if kind.is_array() => Content::Array(vec![0; stride(spec) * spec.max_entries as usize]),
            kind if kind.is_hash() => {
                Content::Hash(Hash { oldest: kind.is_lru().then(BTreeMap::new), ..Hash::default() })
            }
            MapKind::LpmTrie => Content::Hash(Hash::default()),
            MapKind::Queue | MapKind::Stack => Content::Queue(VecDeque::new()),
            MapKind::BloomFilter => Content::Bloom(vec![0; bloom_words(spec)]),
            MapKind::RingBuf => Content::Ring(Ring::default()),
            MapKind::ProgArray | MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
                Content::Numbers(HashMap::new())
            }
            _ => Content::Nothing,
        };
        Store { spec: spec.clone(), content }
    }

    /// Values that a program may access, one after the other.
    pub(super) fn values(&self) -> &[u8] {
        match &self.content {
            Content::Array(values) | Content::Hash(Hash { values, .. }) => values,
            _ => &[],
        }
    }

    pub(super) fn values_mut(&mut self) -> &mut [u8] {
        match &mut self.content {
            Content::Array(values) | Content::Hash(Hash { values, .. }) => values,
            _ => &mut [],
        }
    }

    /// Where the value of a key begins among [`values`](Store::values).
    pub(super) fn lookup(&mut self, key: &[u8]) -> Option<usize> {
        let stride = stride(&self.spec);
        match &mut self.content {
            Content::Array(_) => index_of(key, &self.spec).map(|index| index * stride),
            Content::Hash(hash) if self.spec.kind == MapKind::LpmTrie => {
                longest(hash, key).map(|slot| slot * stride)
            }
            Content::Hash(hash) => hash.lookup(key).map(|slot| slot * stride),
            _ => None,
        }
    }

    /// 0 or a negative error, as the helper answers.
    pub(super) fn update(&mut self, key: &[u8], value: &[u8], flags: u64) -> i64 {
        let (stride, is_lpm) = (stride(&self.spec), self.spec.kind == MapKind::LpmTrie);
        if flags & !LOCK > EXIST {
            return -EINVAL;
        }
        let at = match &mut self.content {
            Content::Array(_) => {
                let Some(index) = index_of(key, &self.spec) else { return -E2BIG };
                if flags & NOEXIST != 0 {
                    return -EEXIST;
                }
                if flags & LOCK != 0 {
                    return -EINVAL;
                }
                index * stride
            }
            Content::Hash(_) if flags & LOCK != 0 => return -EINVAL,
            Content::Hash(hash) => {
                let key = match prefix(key) {
                    _ if !is_lpm => key.to_vec(),
                    Some(prefix) => prefix,
                    None => return -EINVAL,
                };
                match hash.take(key, stride, &self.spec, flags) {
                    Ok(slot) => slot * stride,
                    Err(E2BIG) if is_lpm => return -ENOSPC,
                    Err(error) => return -error,
                }
            }
            _ => return -EINVAL,
        };
        self.values_mut()[at..at + value.len()].copy_from_slice(value);
        0
    }

    /// 0 or a negative error, as the helper answers.
    pub(super) fn delete(&mut self, key: &[u8]) -> i64 {
        let is_lpm = self.spec.kind == MapKind::LpmTrie;
        match &mut self.content {
            Content::Hash(hash) => match prefix(key) {
                None if is_lpm => -EINVAL,
                Some(key) if is_lpm => hash.delete(&key),
                _ => hash.delete(key),
            },
            _ => -EINVAL,
        }
    }

    /// The element at this place of a walk or behind it: its place, its key, and where its value begins.
    pub(super) fn element_from(&self, place: usize) -> Option<(usize, Vec<u8>, usize)> {
        let stride = stride(&self.spec);
        match &self.content {
            Content::Array(_) => {
                let index = u32::try_from(place).ok().filter(|index| *index < self.spec.max_entries)?;
                Some((place, index.to_le_bytes().to_vec(), place * stride))
            }
            Content::Hash(hash) => {
                let slots = hash.used.iter().enumerate().skip(place);
                let mut taken = slots.filter_map(|(slot, used)| Some((slot, used.as_ref()?)));
                taken.next().map(|(slot, (key, _))| (slot, key.clone(), slot * stride))
            }
            _ => None,
        }
    }

    pub(super) fn push(&mut self, value: &[u8], flags: u64) -> i64 {
        let full = self.spec.max_entries as usize;
        match &mut self.content {
            Content::Queue(_) if flags != ANY && flags != EXIST => -EINVAL,
            Content::Queue(elements) if elements.len() == full && flags != EXIST => -E2BIG,
            Content::Queue(elements) => {
                if elements.len() == full {
                    // The oldest makes room, of a stack too.
                    elements.pop_front();
                }
                elements.push_back(value.to_vec());
                0
            }
            Content::Bloom(_) if flags != ANY => -EINVAL,
            Content::Bloom(words) => {
                for bit in bits_of(value, words.len(), self.spec.bloom_hashes()) {
                    words[bit / 64] |= 1 << (bit % 64);
                }
                0
            }
            _ => -EINVAL,
        }
    }

    /// Whether a value may have been pushed into a Bloom filter; none of other kinds.
    pub(super) fn may_have(&self, value: &[u8]) -> Option<bool> {
        let Content::Bloom(words) = &self.content else { return None };
        let mut bits = bits_of(value, words.len(), self.spec.bloom_hashes());
        Some(bits.all(|bit| words[bit / 64] >> (bit % 64) & 1 != 0))
    }

    /// The element that comes out next; it stays there unless it `is_pop`.
    pub(super) fn next(&mut self, is_pop: bool) -> Option<Vec<u8>> {
        let is_stack = self.spec.kind == MapKind::Stack;
        let Content::Queue(elements) = &mut self.content else { return None };
        match (is_pop, is_stack) {
            (false, false) => elements.front().cloned(),
            (false, true) => elements.back().cloned(),
            (true, false) => elements.pop_front(),
            (true, true) => elements.pop_back(),
        }
    }

    pub(super) fn numbers(&self) -> Option<&HashMap<Vec<u8>, u32>> {
        if let Content::Numbers(numbers) = &self.content { Some(numbers) } else { None }
    }

    pub(super) fn ring(&mut self) -> Option<(&mut Ring, u64)> {
        let bytes = self.spec.max_entries.into();
        if let Content::Ring(ring) = &mut self.content { Some((ring, bytes)) } else { None }
    }
}

/// As many as make one value in a hundred or so look like one that was pushed.
fn bloom_words(spec: &MapSpec) -> usize {
    let bits = u64::from(spec.max_entries) * u64::from(spec.bloom_hashes()) * 7 / 5;
    (bits.next_power_of_two() / 64).max(1) as usize
}

/// Which bits a value sets: FNV-1a, then as many numbers as there are hash functions.
fn bits_of(value: &[u8], words: usize, hashes: u32) -> impl Iterator<Item = usize> {
    let start = value
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let next = |hash: &u64| Some((hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31));
    let numbers = std::iter::successors(next(&start), next).take(hashes as usize);
    numbers.map(move |number| number as usize & (64 * words - 1))
}

/// Bytes from one value to the next.
pub(super) fn stride(spec: &MapSpec) -> usize {
    (spec.value_bytes as usize).next_multiple_of(8).max(8)
}

/// The index that a key of an array is, if there is such an element.
fn index_of(key: &[u8], spec: &MapSpec) -> Option<usize> {
    let index = u32::from_le_bytes(key.try_into().ok()?);
    (index < spec.max_entries).then_some(index as usize)
}

impl Hash {
    fn lookup(&mut self, key: &[u8]) -> Option<usize> {
        let slot = *self.slots.get(key)?;
        self.touch(slot);
        Some(slot)
    }

    /// A slot that is taken is used now.
    fn touch(&mut self, slot: usize) {
        let Some(oldest) = &mut self.oldest else { return };
        self.clock += 1;
        if let Some((_, used)) = &mut self.used[slot] {
            oldest.remove(used);
            oldest.insert(self.clock, slot);
            *used = self.clock;
        }
    }

    /// The slot for a key's value, by the flags of an update.
    fn take(&mut self, key: Vec<u8>, stride: usize, spec: &MapSpec, flags: u64) -> Result<usize, i64> {
        if let Some(slot) = self.lookup(&key) {
            return if flags == NOEXIST { Err(EEXIST) } else { Ok(slot) };
        }
        if flags == EXIST {
            return Err(ENOENT);
        }
        if self.slots.len() == spec.max_entries as usize {
            let oldest = self.oldest.as_ref().and_then(BTreeMap::first_key_value);
            let oldest = oldest.and_then(|(_, slot)| self.used[*slot].as_ref());
            match oldest.map(|(key, _)| key.clone()) {
                Some(oldest) => self.delete(&oldest),
                None => return Err(E2BIG),
            };
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.used.push(None);
            self.values.resize(self.values.len() + stride, 0);
            self.used.len() - 1
        });
        self.values[slot * stride..(slot + 1) * stride].fill(0);
        self.used[slot] = Some((key.clone(), 0));
        self.slots.insert(key, slot);
        self.touch(slot);
        Ok(slot)
    }

    fn delete(&mut self, key: &[u8]) -> i64 {
        let Some(slot) = self.slots.remove(key) else { return -ENOENT };
        if let (Some((_, used)), Some(oldest)) = (self.used[slot].take(), &mut self.oldest) {
            oldest.remove(&used);
        }
        self.free.push(slot);
        0
    }
}

/// A key of a trie, the bits behind its length zero. None: it is longer than a key has bits.
fn prefix(key: &[u8]) -> Option<Vec<u8>> {
    let (length, bits) = key.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    (length <= 8 * bits.len()).then(|| shortened(length, bits))
}

/// The prefix of `length` of some bits.
fn shortened(length: usize, bits: &[u8]) -> Vec<u8> {
    let mut prefix = (length as u32).to_le_bytes().to_vec();
    prefix.extend(bits.iter().enumerate().map(|(at, byte)| match length.saturating_sub(8 * at) {
        0 => 0,
        kept @ 1..8 => byte & !(0xff >> kept),
        _ => *byte,
    }));
    prefix
}

/// The slot of the longest prefix of a key, no longer than the key says.
fn longest(hash: &mut Hash, key: &[u8]) -> Option<usize> {
    let (length, bits) = key.split_first_chunk::<4>()?;
    let most = (u32::from_le_bytes(*length) as usize).min(8 * bits.len());
    (0..=most).rev().find_map(|length| hash.lookup(&shortened(length, bits)))
}

impl Ring {
    /// A number for the record, by which it is finished.
    pub(super) fn reserve(&mut self, size: u64, bytes: u64) -> Option<u64> {
        let taken = size.checked_add(RECORD_HEADER_BYTES)?.checked_next_multiple_of(8)?;
        if taken > bytes || self.produced - self.consumed + taken > bytes {
            return None;
        }
        let at = self.produced;
        self.produced += taken;
        self.records.push_back((at, State::Open));
        Some(at)
    }

    /// None: it is discarded.
    pub(super) fn finish(&mut self, at: u64, record: Option<Vec<u8>>) {
        // They are in the order of their places.
        if let Ok(found) = self.records.binary_search_by_key(&at, |(place, _)| *place) {
            self.records[found].1 = record.map_or(State::Discarded, State::Done);
        }
    }

    /// The oldest record, if nobody writes it any more.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if matches!(self.records.front()?, (_, State::Open)) {
                return None;
            }
            let (_, state) = self.records.pop_front()?;
            self.consumed = self.records.front().map_or(self.produced, |(at, _)| *at);
            if let State::Done(record) = state {
                return Some(record);
            }
        }
    }

    /// What `ringbuf_query` answers.
    pub(super) fn query(&self, what: u64, bytes: u64) -> u64 {
        match what {
            0 => self.produced - self.consumed,
            1 => bytes,
            2 => self.consumed,
            3 => self.produced,
            _ => 0,
        }
    }
}
