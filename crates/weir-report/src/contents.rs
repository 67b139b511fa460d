//! Contents: the entries of one map, decoded, ordered, cut to the top ones and divided.
//!
//! In: a [`MapSchema`] and raw entries, with the lanes of per-CPU values already added up.
//! Out: rows in the order they print: by value, ascending (a histogram by its total, `stats` by its average);
//! values that are no numbers, and equal ones, by key (integers as unsigned, strings by byte). A scalar that was
//! never set has no row; a scalar `count` is 0 from the start.

use std::cmp::Ordering;

use weir_event::{MapSchema, MapValue};

use crate::histogram::{self, Bucket};
use crate::names::Names;
use crate::series::{self, Clock, Point};
use crate::value::{Malformed, Value, word};

/// One raw entry of a map; the key of a scalar map is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// As the map has it.
    pub key: Vec<u8>,
    /// `MapValue::words` words.
    pub value: Vec<u8>,
    /// Of a scalar map: its values were set to 0, and so do not say that it was set.
    pub was_zeroed: bool,
}

impl Entry {
    /// Of the bytes that a map has.
    pub fn of(key: Vec<u8>, value: Vec<u8>) -> Entry {
        Entry { key, value, was_zeroed: false }
    }
}

/// What a map prints.
#[derive(Debug)]
pub(crate) struct Contents {
    pub rows: Vec<Row>,
    /// Entries that did not fit the schema, and have no row.
    pub malformed: u64,
}

#[derive(Debug)]
pub(crate) struct Row {
    /// None for a scalar map.
    pub key: Option<Value>,
    pub shown: Shown,
}

/// The value of one row.
#[derive(Debug)]
pub(crate) enum Shown {
    Value(Value),
    Stats {
        count: u64,
        average: Value,
        total: Value,
    },
    Buckets(Vec<Bucket>),
    /// How its times are written, and its intervals, the oldest first.
    Series(Clock, Vec<Point>),
}

/// The rows of a map. `top`: how many of the highest to keep; `div`: what to divide by; 0 where not given.
pub(crate) fn contents(map: &MapSchema, entries: &[Entry], names: Names<'_>, top: u64, div: u64) -> Contents {
    let div = div.max(1);
    let mut malformed = 0;
    let mut rows: Vec<(Rank, Row)> = Vec::with_capacity(entries.len());
    for entry in entries {
        match row(map, entry, names, div) {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => {}
            Err(_) => malformed += 1,
        }
    }
    rows.sort_by(|(a, left), (b, right)| a.cmp(b).then_with(|| compare_keys(&left.key, &right.key)));
    let skipped = match usize::try_from(top) {
        Ok(0) | Err(_) => 0,
        // bpftrace prints all stats whatever `top` says.
        Ok(_) if matches!(map.value, MapValue::Stats { .. }) => 0,
        Ok(top) => rows.len().saturating_sub(top),
    };
    let rows = rows.into_iter().skip(skipped).map(|(_, row)| row).collect();
    Contents { rows, malformed }
}

/// The value that `print(@map[key])` shows.
pub(crate) fn single(map: &MapSchema, entry: &Entry, names: Names<'_>) -> Result<Value, Malformed> {
    match shown(map, &entry.value, names, 1)?.1 {
        Shown::Value(value) => Ok(value),
        Shown::Stats { average, .. } => Ok(average),
        Shown::Series(..) => Ok(Value::int(0)),
        Shown::Buckets(buckets) => Ok(Value::int(buckets.iter().map(|bucket| bucket.count as i64).sum())),
    }
}

/// What rows are ordered by, before their keys. None: by key alone.
type Rank = Option<i128>;

/// None: a scalar that was never set.
fn row(map: &MapSchema, entry: &Entry, names: Names<'_>, div: u64) -> Result<Option<(Rank, Row)>, Malformed> {
    let key = match &map.key {
        None if !entry.was_zeroed && !scalar_is_set(&map.value, &entry.value)? => return Ok(None),
        None => None,
        Some(ty) => Some(Value::decode(ty, &entry.key, names)?),
    };
    let (rank, shown) = shown(map, &entry.value, names, div)?;
    Ok(Some((rank, Row { key, shown })))
}

/// Whether a scalar map shows this entry.
pub fn is_set(map: &MapSchema, entry: &Entry) -> bool {
    entry.was_zeroed || scalar_is_set(&map.value, &entry.value).unwrap_or(false)
}

fn scalar_is_set(value: &MapValue, bytes: &[u8]) -> Result<bool, Malformed> {
    Ok(match value {
        MapValue::Plain(ty) => word(bytes, ty.bytes() as usize / 8)? != 0,
        MapValue::Count => true,
        MapValue::Sum { .. } | MapValue::Avg { .. } | MapValue::Stats { .. } => word(bytes, 1)? != 0,
        MapValue::Min { .. } | MapValue::Max { .. } => word(bytes, 1)? != 0,
        MapValue::Hist { .. } | MapValue::Lhist { .. } | MapValue::Tseries { .. } => {
            bytes.iter().any(|byte| *byte != 0)
        }
    })
}

/// The value of an entry, and its rank before division.
fn shown(map: &MapSchema, bytes: &[u8], names: Names<'_>, div: u64) -> Result<(Rank, Shown), Malformed> {
    let number = |bits: u64, signed: bool| Value::Int { bits, signed };
    let plain = match &map.value {
        MapValue::Plain(ty) => Value::decode(ty, bytes, names)?,
        MapValue::Count => number(word(bytes, 0)?, false),
        MapValue::Sum { signed } => number(word(bytes, 0)?, *signed),
        MapValue::Min { signed } => number(minimum(word(bytes, 0)?, word(bytes, 1)?, *signed), *signed),
        MapValue::Max { signed } => number(maximum(word(bytes, 0)?, word(bytes, 1)?, *signed), *signed),
        MapValue::Avg { signed } => average(word(bytes, 0)?, word(bytes, 1)?, *signed),
        MapValue::Stats { signed } => {
            let (total, count) = (word(bytes, 0)?, word(bytes, 1)?);
            let average = average(total, count, *signed);
            let rank = average.number();
            // bpftrace divides the average alone.
            let stats = Shown::Stats { count, average: average.divided(div), total: number(total, *signed) };
            return Ok((rank, stats));
        }
        MapValue::Tseries { interval_ns, intervals, of, signed } => {
            let words = words_of(map, bytes)?;
            let series = series::series(&words, *interval_ns, *intervals, (*of, *signed));
            let points: Vec<Point> = series
                .into_iter()
                .map(|(at_ns, value)| Point {
                    time: series::time(names.symbols, *interval_ns, at_ns),
                    value: value.map(|value| value.divided(div)),
                })
                .collect();
            let last = points.last().and_then(|point| point.value.as_ref()?.number());
            return Ok((last, Shown::Series(series::clock(*interval_ns), points)));
        }
        MapValue::Hist { .. } | MapValue::Lhist { .. } => {
            let words = words_of(map, bytes)?;
            let total: i128 = words.iter().map(|count| i128::from(*count)).sum();
            return Ok((Some(total), Shown::Buckets(histogram::buckets(&map.value, &words, div))));
        }
    };
    Ok((plain.rank(), Shown::Value(plain.divided(div))))
}

fn words_of(map: &MapSchema, bytes: &[u8]) -> Result<Vec<u64>, Malformed> {
    (0..map.value.words(map.key.is_none()) as usize).map(|index| word(bytes, index)).collect()
}

/// `encoded` grows as the minimum falls: its complement is the minimum (with the sign bit flipped, if signed).
pub(crate) fn minimum(encoded: u64, values: u64, signed: bool) -> u64 {
    maximum(!encoded, values, signed)
}

pub(crate) fn maximum(encoded: u64, values: u64, signed: bool) -> u64 {
    match (values, signed) {
        (0, _) => 0,
        (_, true) => encoded ^ (1 << 63),
        (_, false) => encoded,
    }
}

/// Towards zero, 0 of no values.
pub(crate) fn average(total: u64, count: u64, signed: bool) -> Value {
    let sum = Value::Int { bits: total, signed };
    if count == 0 { Value::Int { bits: 0, signed } } else { sum.divided(count) }
}

fn compare_keys(left: &Option<Value>, right: &Option<Value>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare(left, right),
        _ => Ordering::Equal,
    }
}

fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int { bits: left, .. }, Value::Int { bits: right, .. }) => left.cmp(right),
        (Value::Truth(left), Value::Truth(right)) => left.cmp(right),
        (Value::Enum(..) | Value::Int { .. }, Value::Enum(..) | Value::Int { .. }) => {
            left.number().cmp(&right.number())
        }
        (Value::Pointer(left), Value::Pointer(right)) => left.cmp(right),
        (Value::Str(left), Value::Str(right)) => left.cmp(right),
        (Value::Stack { frames: left, .. }, Value::Stack { frames: right, .. }) => left.cmp(right),
        (Value::Double(left), Value::Double(right)) => left.cmp(right),
        (Value::Record(left), Value::Record(right)) => {
            let parts = left.iter().zip(right).map(|((_, left), (_, right))| compare(left, right));
            parts.fold(Ordering::Equal, Ordering::then)
        }
        (Value::Array(left), Value::Array(right)) | (Value::Tuple(left), Value::Tuple(right)) => {
            let parts = left.iter().zip(right).map(|(left, right)| compare(left, right));
            parts.fold(Ordering::Equal, Ordering::then)
        }
        // Keys of one map have one type.
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NO_TYPES, NoSymbols, Seen};

    fn check_encoded(value: MapValue, word0: u64, want: i128) {
        let map = MapSchema { name: "@".to_string(), map_index: 0, key: None, value, room: None };
        let value = [word0.to_le_bytes(), 1u64.to_le_bytes()].concat();
        let names = Names { sites: &[], types: &NO_TYPES, symbols: &NoSymbols, seen: Seen::Sometime };
        let found = single(&map, &Entry::of(vec![], value), names).unwrap();
        assert_eq!(found.number(), Some(want), "{:?} of {word0:#x}", map.value);
    }

    #[test]
    fn extremes_decode_over_their_whole_range() {
        for x in [i64::MIN, -1, 0, 1, i64::MAX] {
            check_encoded(MapValue::Min { signed: true }, !(x ^ i64::MIN) as u64, i128::from(x));
            check_encoded(MapValue::Max { signed: true }, (x ^ i64::MIN) as u64, i128::from(x));
        }
        for x in [0, 1, 1 << 63, u64::MAX] {
            check_encoded(MapValue::Min { signed: false }, !x, i128::from(x));
            check_encoded(MapValue::Max { signed: false }, x, i128::from(x));
        }
    }

    #[test]
    fn averages_go_towards_zero() {
        assert_eq!(average(-15i64 as u64, 2, true), Value::int(-7));
        assert_eq!(average(u64::MAX, 2, false).number(), Some(i128::from(u64::MAX / 2)));
        assert_eq!(average(5, 0, true), Value::int(0));
        assert_eq!(average(-15i64 as u64, u64::MAX, true), Value::int(0));
    }
}
