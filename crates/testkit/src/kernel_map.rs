//! A map in the running kernel, operated on from user space and from inside programs: the judge of weir's own.
//!
//! In: a [`MapSpec`] and operations. Out: what the kernel answers, as 0 or a negative errno, and values. From user
//! space that is bpf(2). From inside a program it is a socket filter for each helper, made when it is first asked
//! for, which takes flags, key and value from an array and leaves its result there; it runs by BPF_PROG_TEST_RUN.
//!
//! Values of per-CPU kinds: a write sets one CPU's value and zeros the others, a read is the sum of all, word by word,
//! as weir's maps show them. The thread that makes such a map stays on that CPU from then on, so that programs see the
//! same value.
//!
//! Deliberately not here: maps whose values the kernel interprets (programs, perf events).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use weir_ebpf::{HelperId, MapKind, MapSpec, asm, helper};
pub use weir_kernel::Command;
use weir_kernel::{Input, KernelError, Maps, ProgType};

/// One map of the kernel's.
#[derive(Debug)]
pub struct KernelMap {
    spec: MapSpec,
    /// It comes first.
    maps: Maps,
    /// The CPU whose value is written, and how many there may be.
    cpu: usize,
    cpus: usize,
    /// Each calls one helper; its maps are this one, and the array that it takes its arguments from.
    programs: RefCell<BTreeMap<HelperId, Calling>>,
}

/// A program that calls a helper.
#[derive(Debug)]
struct Calling {
    maps: Maps,
    program: weir_kernel::Loaded,
}

/// Words before the key in the array: flags, result.
const ARGUMENT_WORDS: usize = 2;

impl KernelMap {
    /// # Errors
    /// Of the kernel, which says with it that it does not take such maps, or that bpf(2) is not allowed.
    pub fn create(spec: &MapSpec) -> io::Result<KernelMap> {
        let maps = Maps::create(std::slice::from_ref(spec)).map_err(said)?;
        let (mut cpu, mut cpus) = (0, 1);
        if spec.kind.is_per_cpu() {
            cpu = sched_getcpu()?;
            let mut only = CpuSet::new();
            only.set(cpu)?;
            sched_setaffinity(Pid::from_raw(0), &only)?;
            cpus = weir_kernel::possible_cpus()?;
        }
        Ok(KernelMap { spec: spec.clone(), maps, cpu, cpus, programs: RefCell::default() })
    }

    /// A map that holds maps like `like`.
    pub fn holding(spec: &MapSpec, like: &KernelMap) -> io::Result<KernelMap> {
        let spec = MapSpec { inner: Some(1), ..spec.clone() };
        let maps = Maps::create(&[spec.clone(), like.spec.clone()]).map_err(said)?;
        Ok(KernelMap { spec, maps, cpu: 0, cpus: 1, programs: RefCell::default() })
    }

    /// What an update of a map that holds maps takes as this one.
    pub fn descriptor(&self) -> [u8; 4] {
        self.maps.fd(0).as_raw_fd().to_ne_bytes()
    }

    /// One command of bpf(2). An empty key is none at all (a null pointer). The value that comes back is the next key
    /// for [`Command::NextKey`].
    pub fn user(&self, command: Command, key: &[u8], value: &[u8], flags: u64) -> (i64, Option<Vec<u8>>) {
        let mut buffer = match command {
            // A Bloom filter reads what it is asked for.
            Command::Lookup if self.spec.kind == MapKind::BloomFilter => value.to_vec(),
            Command::Update => self.spread(value),
            Command::NextKey => vec![0; key.len().max(self.spec.key_bytes as usize)],
            Command::Delete | Command::Freeze => Vec::new(),
            Command::Lookup | Command::LookupAndDelete => {
                self.spread(&vec![0; self.spec.value_bytes as usize])
            }
        };
        let status = self.maps.command(command, 0, key, &mut buffer, flags);
        let answer = match command {
            _ if status != 0 => None,
            Command::Update | Command::Delete | Command::Freeze => None,
            Command::Lookup if self.spec.kind == MapKind::BloomFilter => None,
            Command::NextKey => Some(buffer),
            Command::Lookup | Command::LookupAndDelete => Some(self.sum(&buffer)),
        };
        (status, answer)
    }

    /// BPF_MAP_FREEZE.
    pub fn freeze(&self) -> i64 {
        self.user(Command::Freeze, &[], &[], 0).0
    }

    /// One call of a helper from inside a program: r0 (of a look-up: 0, or -ENOENT for null), and the value found. Of
    /// a pop or peek, what the memory holds afterwards that held `value`.
    ///
    /// # Panics
    /// If the program does not load or run: that is a bug of this file.
    pub fn program(&self, id: HelperId, key: &[u8], value: &[u8], flags: u64) -> (i64, Option<Vec<u8>>) {
        let mut programs = self.programs.borrow_mut();
        let program = programs.entry(id).or_insert_with(|| self.load(id));
        let (key_at, value_at, bytes) = self.places();
        let mut arguments = vec![0; bytes];
        arguments[..8].copy_from_slice(&flags.to_le_bytes());
        arguments[key_at..key_at + key.len()].copy_from_slice(key);
        arguments[value_at..value_at + value.len()].copy_from_slice(value);
        let failed = |error: KernelError| panic!("{}: {error}", self.spec.name);
        program.maps.update(1, &[0; 4], &arguments).unwrap_or_else(failed);
        let packet = Input { bytes: &[0; 64], ..Input::default() };
        program.program.run(packet, 1).map(drop).unwrap_or_else(failed);
        let arguments = program.maps.lookup(1, &[0; 4]).unwrap_or_else(|error| panic!("{error}"));
        let arguments = arguments.expect("an array has its value");
        let result = i64::from_le_bytes(arguments[8..16].try_into().expect("8 bytes"));
        let value = &arguments[value_at..value_at + self.spec.value_bytes as usize];
        let has_value = match id {
            helper::MAP_LOOKUP_ELEM => result == 0,
            // What they leave where there is nothing is an answer, too.
            helper::MAP_POP_ELEM | helper::MAP_PEEK_ELEM => true,
            _ => false,
        };
        (result, has_value.then(|| value.to_vec()))
    }

    /// Bytes of the array before the key, before the value, and in all.
    fn places(&self) -> (usize, usize, usize) {
        let key_at = ARGUMENT_WORDS * 8;
        let value_at = key_at + self.spec.key_bytes.next_multiple_of(8) as usize;
        (key_at, value_at, value_at + self.spec.value_bytes.next_multiple_of(8) as usize)
    }

    fn load(&self, id: HelperId) -> Calling {
        let (key_at, value_at, bytes) = self.places();
        let MapSpec { kind, key_bytes, value_bytes, max_entries, .. } = self.spec;
        let name = helper::by_id(id).map_or("?", |proto| proto.name);
        let mut text = format!(
            "map @m {} key {key_bytes} value {value_bytes} entries {max_entries}\n\
             map @io array key 4 value {bytes} entries 1\nprogram \"p\" probe\n\
             r6 = map[@io][0] ll\nr1 = map[@m] ll\n",
            kind.name()
        );
        let key = format!("r2 = r6\nr2 += {key_at}\n");
        let value = |register: u32| format!("r{register} = r6\nr{register} += {value_at}\n");
        text += &match id {
            helper::MAP_LOOKUP_ELEM => {
                format!(
                    "{key}call {name}\nif r0 == 0 goto absent\n{}r1 = 0\ngoto out\n",
                    copy(value_bytes, value_at)
                ) + "absent:\nr1 = -2\nout:\n*(u64 *)(r6 + 8) = r1\nr0 = 0\nexit\n"
            }
            helper::MAP_UPDATE_ELEM => {
                format!("{key}{}r4 = *(u64 *)(r6 + 0)\ncall {name}\n", value(3)) + STORE_RESULT
            }
            helper::MAP_PUSH_ELEM => {
                format!("{}r3 = *(u64 *)(r6 + 0)\ncall {name}\n", value(2)) + STORE_RESULT
            }
            helper::MAP_POP_ELEM | helper::MAP_PEEK_ELEM => {
                format!("{}call {name}\n", value(2)) + STORE_RESULT
            }
            _ => format!("{key}call {name}\n") + STORE_RESULT,
        };
        let object = asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let arguments = Maps::create(&object.maps[1..]).unwrap_or_else(|error| panic!("{error}"));
        let maps = self.maps.share(0).expect("a descriptor").chain(arguments);
        let program = weir_kernel::load_as(&object.programs[0], &maps, ProgType::SocketFilter);
        Calling { maps, program: program.unwrap_or_else(|error| panic!("{error}")) }
    }

    /// What bpf(2) takes and gives as a value.
    fn spread(&self, value: &[u8]) -> Vec<u8> {
        if !self.spec.kind.is_per_cpu() {
            return value.to_vec();
        }
        let stride = value.len().next_multiple_of(8);
        let mut all = vec![0; stride * self.cpus];
        all[self.cpu * stride..self.cpu * stride + value.len()].copy_from_slice(value);
        all
    }

    fn sum(&self, all: &[u8]) -> Vec<u8> {
        let stride = all.len() / self.cpus;
        let mut sums = vec![0u64; stride.div_ceil(8)];
        for lane in all.chunks(stride.max(1)) {
            for (sum, chunk) in sums.iter_mut().zip(lane.chunks(8)) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                *sum = sum.wrapping_add(u64::from_le_bytes(word));
            }
        }
        let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        bytes.truncate(self.spec.value_bytes as usize);
        bytes
    }
}

const STORE_RESULT: &str = "*(u64 *)(r6 + 8) = r0\nr0 = 0\nexit\n";

/// Copies a value of `bytes` bytes from r0 into the array.
fn copy(bytes: u32, to: usize) -> String {
    let words = (0..bytes / 8).map(|word| (word * 8, 64));
    let rest = (bytes / 8 * 8..bytes).map(|at| (at, 8));
    let parts = words.chain(rest).map(|(at, bits)| {
        format!("r1 = *(u{bits} *)(r0 + {at})\n*(u{bits} *)(r6 + {}) = r1\n", to + at as usize)
    });
    parts.collect()
}

/// What the kernel has answered.
fn said(error: KernelError) -> io::Error {
    match error {
        KernelError::Call { source, .. } => source,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kernel, skip};

    #[test]
    fn programs_and_user_space_see_one_map() {
        if let Err(reason) = kernel::available() {
            return skip::skip("testkit::kernel", reason);
        }
        for kind in [MapKind::Hash, MapKind::PerCpuHash, MapKind::Array, MapKind::PerCpuArray] {
            let key = [1, 0, 0, 0];
            let map = KernelMap::create(&MapSpec::new("m", kind, 4, 13, 4))
                .unwrap_or_else(|error| panic!("{error}"));
            let value: Vec<u8> = (1..14).collect();
            assert_eq!(map.program(helper::MAP_UPDATE_ELEM, &key, &value, 0), (0, None));
            assert_eq!(map.user(Command::Lookup, &key, &[], 0), (0, Some(value.clone())), "{kind:?}");
            assert_eq!(map.user(Command::Update, &key, &[7; 13], 2).0, 0);
            assert_eq!(map.program(helper::MAP_LOOKUP_ELEM, &key, &[], 0), (0, Some(vec![7; 13])));
            assert_eq!(map.program(helper::MAP_UPDATE_ELEM, &key, &value, 1), (-17, None));
            assert_eq!((map.freeze(), map.user(Command::Update, &key, &value, 0).0), (0, -1));
        }
    }
}
