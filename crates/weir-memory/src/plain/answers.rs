//! What helpers answer that need nothing of a process.

use weir_ebpf::helper::{self, HelperProto};
use weir_ebpf::{HelperId, MapKind, context};

use super::run::Run;
use super::store::{E2BIG, EAGAIN, EINVAL, ENOENT};
use crate::{Memory as _, Value, Violation, dynptr_of};

const EFAULT: i64 = 14;
const EOPNOTSUPP: i64 = 95;

/// enum xdp_action, as far as it is answered here.
const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
/// TC_ACT_SHOT and TC_ACT_REDIRECT of classifiers, and BPF_F_INGRESS.
const TC_SHOT: u64 = 2;
const TC_REDIRECT: u64 = 7;
const TC_INGRESS: u64 = 1;
/// Flags of `redirect_map`: the answer where there is no such element; all devices get the packet, perhaps but one.
const ACTIONS: u64 = 3;
const TO_ALL: u64 = 8;
const BUT_INGRESS: u64 = 16;

/// Helpers that read at an address.
const READS: &[HelperId] = &[
    helper::PROBE_READ,
    helper::PROBE_READ_STR,
    helper::PROBE_READ_USER,
    helper::PROBE_READ_KERNEL,
    helper::PROBE_READ_USER_STR,
    helper::PROBE_READ_KERNEL_STR,
    helper::COPY_FROM_USER,
];

/// Bytes of a thread's name, without the NUL behind it.
const COMM_BYTES_MAX: usize = 15;

/// BPF_RB_NO_WAKEUP and BPF_RB_FORCE_WAKEUP.
const RING_WAKEUPS: u64 = 3;

/// What a helper answers to arguments that were checked.
pub(super) fn answer(run: &mut Run<'_>, proto: &HelperProto, values: &mut [Value]) -> Result<u64, Violation> {
    use Value::{Buffer, Bytes, Map, Number, Record};
    let status = |status: i64| Ok(status as u64);
    match (proto.id, &mut *values) {
        (helper::MAP_LOOKUP_ELEM, [Map(map), Bytes(key)]) => Ok(lookup(run, *map, key)),
        (helper::MAP_LOOKUP_PERCPU_ELEM, [Map(map), Bytes(key), Number(cpu)]) => {
            // There is one.
            Ok(if *cpu as u32 == 0 { lookup(run, *map, key) } else { 0 })
        }
        (helper::MAP_UPDATE_ELEM, [Map(map), Bytes(key), Bytes(value), Number(flags)]) => {
            status(run.maps.stores[*map].update(key, value, *flags))
        }
        (helper::MAP_DELETE_ELEM, [Map(map), Bytes(key)]) => status(run.maps.stores[*map].delete(key)),
        (helper::MAP_PUSH_ELEM, [Map(map), Bytes(value), Number(flags)]) => {
            status(run.maps.stores[*map].push(value, *flags))
        }
        (helper::MAP_PEEK_ELEM, [Map(map), Bytes(value)]) => status(may_have(run, *map, value)),
        (helper::MAP_POP_ELEM | helper::MAP_PEEK_ELEM, [Map(map), Buffer(_, to)]) => {
            let found = run.maps.stores[*map].next(proto.id == helper::MAP_POP_ELEM);
            to.fill(0);
            match found {
                Some(value) => {
                    to.copy_from_slice(&value);
                    Ok(0)
                }
                None => status(-ENOENT),
            }
        }
        (helper::RINGBUF_RESERVE, [Map(map), Number(size), Number(flags)]) => {
            let reserved = if *flags == 0 { reserve(run, *map, *size) } else { None };
            Ok(reserved.map_or(0, |at| run.open_record(*map, at, *size)))
        }
        (helper::RINGBUF_SUBMIT | helper::RINGBUF_DISCARD, [Record(record), _]) => {
            run.close_record(*record, proto.id == helper::RINGBUF_DISCARD);
            Ok(0)
        }
        (helper::RINGBUF_OUTPUT, [Map(map), Bytes(bytes), _, Number(flags)]) => {
            if *flags & !RING_WAKEUPS != 0 {
                return status(-EINVAL);
            }
            let Some(at) = reserve(run, *map, bytes.len() as u64) else { return status(-EAGAIN) };
            if let Some((ring, _)) = run.maps.stores[*map].ring() {
                ring.finish(at, Some(std::mem::take(bytes)));
            }
            Ok(0)
        }
        (helper::RINGBUF_RESERVE_DYNPTR, [Map(map), Number(size), Number(flags), Buffer(_, to)]) => {
            to.fill(0);
            let size = u64::from(*size as u32);
            if *flags != 0 {
                return status(-EINVAL);
            }
            if size > helper::DYNPTR_SIZE_MAX.into() {
                return status(-E2BIG);
            }
            let Some(at) = reserve(run, *map, size) else { return status(-EINVAL) };
            let address = run.open_record(*map, at, size);
            to.copy_from_slice(&[address.to_le_bytes(), size.to_le_bytes()].concat());
            Ok(0)
        }
        (helper::RINGBUF_SUBMIT_DYNPTR | helper::RINGBUF_DISCARD_DYNPTR, [Buffer(_, dynptr), _]) => {
            let (record, _) = dynptr_of(dynptr);
            run.close_record(record, proto.id == helper::RINGBUF_DISCARD_DYNPTR);
            dynptr.fill(0);
            Ok(0)
        }
        (helper::DYNPTR_READ, [Buffer(_, to), _, Buffer(_, dynptr), Number(offset), Number(flags)]) => {
            match part_of(dynptr, *offset, to.len() as u64, *flags) {
                Ok(from) => {
                    let bytes = run.read(from, to.len() as u64)?;
                    to.copy_from_slice(&bytes);
                    Ok(0)
                }
                Err(error) => {
                    to.fill(0);
                    status(-error)
                }
            }
        }
        (helper::DYNPTR_WRITE, [Buffer(_, dynptr), Number(offset), Bytes(from), _, Number(flags)]) => {
            match part_of(dynptr, *offset, from.len() as u64, *flags) {
                Ok(to) => run.write(to, from).map(|()| 0),
                Err(error) => status(-error),
            }
        }
        (helper::DYNPTR_DATA, [Buffer(_, dynptr), Number(offset), Number(bytes)]) => {
            Ok(part_of(dynptr, *offset, *bytes, 0).unwrap_or(0))
        }
        (helper::RINGBUF_QUERY, [Map(map), Number(what)]) => {
            let ring = run.maps.stores[*map].ring();
            Ok(ring.map_or(0, |(ring, bytes)| ring.query(*what, bytes)))
        }
        (helper::KTIME_GET_NS | helper::KTIME_GET_BOOT_NS | helper::KTIME_GET_COARSE_NS, []) => {
            Ok(run.maps.begin.elapsed().as_nanos() as u64)
        }
        (helper::GET_PRANDOM_U32, []) => Ok(random(&mut run.maps.random)),
        (helper::GET_SMP_PROCESSOR_ID | helper::GET_NUMA_NODE_ID, []) => Ok(0),
        (helper::GET_CURRENT_PID_TGID, []) => {
            Ok(u64::from(run.maps.process.pid) << 32 | u64::from(run.maps.process.tid))
        }
        (helper::GET_CURRENT_UID_GID, []) => {
            Ok(u64::from(run.maps.process.gid) << 32 | u64::from(run.maps.process.uid))
        }
        (helper::GET_CURRENT_COMM, [Buffer(_, to), _]) => {
            let room = COMM_BYTES_MAX.min(to.len().saturating_sub(1));
            to.fill(0);
            let name = run.maps.process.comm.bytes().take(room);
            to.iter_mut().zip(name).for_each(|(to, byte)| *to = byte);
            Ok(0)
        }
        // Nothing is mapped.
        (id, [Buffer(_, to), Number(_), Number(_)]) if READS.contains(&id) => {
            to.fill(0);
            status(if to.is_empty() { 0 } else { -EFAULT })
        }
        (helper::GET_ATTACH_COOKIE, _) => Ok(run.attach_cookie()),
        (helper::STRNCMP, [Bytes(text), _, Bytes(string)]) => status(compared(text, string)),
        (helper::CSUM_DIFF, [Bytes(from), _, Bytes(to), _, Number(seed)]) => {
            Ok(sum_of_difference(from, to, *seed as u32).into())
        }
        (helper::SKB_LOAD_BYTES, [_, Number(offset), Buffer(_, to), _]) => {
            let from = run.slot(context::packet::DATA);
            let offset = i32::try_from(*offset as u32).ok().map(|offset| offset as u64);
            status(packet_bytes(run, from, offset, to))
        }
        (helper::SKB_LOAD_BYTES_RELATIVE, [_, Number(offset), Buffer(_, to), _, Number(header)]) => {
            let base = match *header as u32 {
                0 => Some(context::packet::LINK),
                1 => Some(context::packet::NETWORK),
                _ => None,
            };
            let offset = base.and_then(|_| u16::try_from(*offset as u32).ok()).map(u64::from);
            let from = run.slot(base.unwrap_or(context::packet::NETWORK));
            status(packet_bytes(run, from, offset, to))
        }
        (helper::REDIRECT, [_, Number(flags)]) => Ok(if *flags != 0 { XDP_ABORTED } else { XDP_REDIRECT }),
        (helper::REDIRECT_CLASSIFIED, [_, Number(flags)]) => {
            Ok(if *flags & !TC_INGRESS != 0 { TC_SHOT } else { TC_REDIRECT })
        }
        (helper::REDIRECT_MAP, [Map(map), _, Number(flags)]) => {
            let kind = run.maps.stores[*map].spec.kind;
            let is_devices = matches!(kind, MapKind::DevMap | MapKind::DevMapHash);
            let many = if is_devices { TO_ALL | BUT_INGRESS } else { 0 };
            Ok(match *flags {
                flags if flags & !(ACTIONS | many) != 0 => XDP_ABORTED,
                flags if flags & many & TO_ALL != 0 => XDP_REDIRECT,
                flags => flags & ACTIONS,
            })
        }
        (id, _) if helper::MOVE_PACKETS.contains(&id) => {
            run.move_lent();
            status(-EOPNOTSUPP)
        }
        (helper::FIB_LOOKUP, _) => status(-EOPNOTSUPP),
        _ => Err(Violation::NotHere { helper: proto.name }),
    }
}

fn lookup(run: &mut Run<'_>, map: usize, key: &[u8]) -> u64 {
    let store = &mut run.maps.stores[map];
    if let Some(numbers) = store.numbers() {
        return numbers.get(key).map_or(0, |held| Run::handle(*held as usize - 1));
    }
    store.lookup(key).map_or(0, |at| Run::value_address(map, at))
}

fn may_have(run: &Run<'_>, map: usize, value: &[u8]) -> i64 {
    match run.maps.stores[map].may_have(value) {
        Some(true) => 0,
        Some(false) => -ENOENT,
        None => -EINVAL,
    }
}

fn reserve(run: &mut Run<'_>, map: usize, size: u64) -> Option<u64> {
    if !run.has_room_for_record() {
        return None;
    }
    let (ring, bytes) = run.maps.stores[map].ring()?;
    ring.reserve(size, bytes)
}

/// Where a part of a dynptr's memory is. Err: an error number.
fn part_of(dynptr: &[u8], offset: u64, bytes: u64, flags: u64) -> Result<u64, i64> {
    let ((address, size), offset) = (dynptr_of(dynptr), u64::from(offset as u32));
    if address == 0 || flags != 0 {
        return Err(EINVAL);
    }
    if offset > size || bytes > size - offset { Err(E2BIG) } else { Ok(address + offset) }
}

/// Fills `to` with bytes of the packet, or with zeros where it has them not all. No offset: one that no packet has.
fn packet_bytes(run: &Run<'_>, from: u64, offset: Option<u64>, to: &mut [u8]) -> i64 {
    let there = run.slot(context::packet::DATA_END).saturating_sub(from);
    let offset =
        offset.filter(|offset| there.checked_sub(to.len() as u64).is_some_and(|room| *offset <= room));
    for (n, byte) in to.iter_mut().enumerate() {
        *byte = offset.map_or(0, |offset| run.packet_byte(from + offset + n as u64));
    }
    if offset.is_some() { 0 } else { -EFAULT }
}

/// xorshift64*, its upper half.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
}

/// `string` ends at its NUL, or where its bytes do.
fn compared(text: &[u8], string: &[u8]) -> i64 {
    for (n, left) in text.iter().enumerate() {
        let right = string.get(n).copied().unwrap_or(0);
        match left.cmp(&right) {
            std::cmp::Ordering::Less => return -1,
            std::cmp::Ordering::Greater => return 1,
            std::cmp::Ordering::Equal if *left == 0 => return 0,
            std::cmp::Ordering::Equal => {}
        }
    }
    0
}

/// One's complement of 32 bits.
fn sum_add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u32::from(carry)
}

/// A last part of four bytes is padded with zeros.
fn sum_of(bytes: &[u8], seed: u32) -> u32 {
    bytes.chunks(4).fold(seed, |sum, part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        sum_add(sum, u32::from_le_bytes(word))
    })
}

/// The sum over `to` less that over `from`, folded to 16 bits.
fn sum_of_difference(from: &[u8], to: &[u8], seed: u32) -> u32 {
    let sum = match (from.is_empty(), to.is_empty()) {
        (false, false) => sum_add(sum_of(to, seed), !sum_of(from, 0)),
        (true, false) => sum_of(to, seed),
        (false, true) => !sum_of(from, !seed),
        (true, true) => seed,
    };
    sum.wrapping_add(sum.rotate_left(16)) >> 16
}
