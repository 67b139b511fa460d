//! Maps of an object, in the kernel.
//!
//! Of maps with a value for each CPU, what is read is the sum of all, word by word, as weir's own maps have it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::libc;
use weir_ebpf::elf::ObjectFile;
use weir_ebpf::map::flag;
use weir_ebpf::{Insn, MapKind, MapSpec};

use crate::program::Code;
use crate::syscall::{self, Element, MapCreate};
use crate::table::{self, Tables};
use crate::{KernelError, Loaded};

/// Commands of bpf(2) on one element of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// `BPF_MAP_LOOKUP_ELEM`.
    Lookup = 1,
    /// `BPF_MAP_UPDATE_ELEM`.
    Update = 2,
    /// `BPF_MAP_DELETE_ELEM`.
    Delete = 3,
    /// `BPF_MAP_GET_NEXT_KEY`.
    NextKey = 4,
    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`.
    LookupAndDelete = 21,
    /// It takes neither key nor value.
    Freeze = 22,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Command::Lookup => "BPF_MAP_LOOKUP_ELEM",
            Command::Update => "BPF_MAP_UPDATE_ELEM",
            Command::Delete => "BPF_MAP_DELETE_ELEM",
            Command::NextKey => "BPF_MAP_GET_NEXT_KEY",
            Command::LookupAndDelete => "BPF_MAP_LOOKUP_AND_DELETE_ELEM",
            Command::Freeze => "BPF_MAP_FREEZE",
        }
    }
}

/// A key, and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// One of them.
#[derive(Debug)]
struct Map {
    spec: MapSpec,
    fd: OwnedFd,
    /// Bytes that bpf(2) has for a value.
    span: usize,
}

/// An object's maps, in its order.
#[derive(Debug)]
pub struct Maps {
    maps: Vec<Map>,
    /// Those that lie in an array which processes have mapped.
    tables: Option<Tables>,
}

impl Maps {
    /// Makes maps, empty.
    pub fn create(specs: &[MapSpec]) -> Result<Maps, KernelError> {
        let mut maps: Vec<Option<OwnedFd>> = specs.iter().map(|_| None).collect();
        // A map that holds maps is made after the one that tells the kernel which.
        for holds_maps in [false, true] {
            for (index, spec) in
                specs.iter().enumerate().filter(|(_, spec)| spec.inner.is_some() == holds_maps)
            {
                let like = spec.inner.and_then(|inner| maps.get(inner as usize)?.as_ref());
                maps[index] = Some(create(spec, like)?);
            }
        }
        let made = specs.iter().zip(maps).map(|(spec, fd)| {
            // SANITY: each is made in one of the two rounds.
            let fd = fd.expect("every map was made");
            Ok(Map { spec: spec.clone(), fd, span: span(spec).map_err(KernelError::Cpus)? })
        });
        Ok(Maps { maps: made.collect::<Result<_, _>>()?, tables: None })
    }

    /// Makes the maps of an object file, with their first contents, of which those that programs only read stay as they are. Programs that they hold
    /// are put there later ([`Maps::set_program`]).
    pub fn of(file: &ObjectFile) -> Result<Maps, KernelError> {
        let maps = Maps::create(&file.object.maps)?;
        for (index, origin) in file.maps.iter().enumerate() {
            if let Some(initial) = &origin.initial {
                maps.update(index, &[0; 4], initial)?;
            }
            for (key, held) in &origin.held {
                maps.hold(index, &key.to_le_bytes(), *held as usize)?;
            }
            if file.object.maps[index].has(flag::RDONLY_PROG) {
                maps.freeze(index)?;
            }
        }
        Ok(maps)
    }

    /// Puts map `held` into map `map`, which holds maps.
    pub fn hold(&self, map: usize, key: &[u8], held: usize) -> Result<(), KernelError> {
        let descriptor = self.maps[held].fd.as_raw_fd() as u32;
        self.update(map, key, &descriptor.to_le_bytes())
    }

    /// Sets one value; of a map with a value for each CPU that of the first one, and the others to zeros.
    ///
    /// # Panics
    /// If key or value are not of the map's sizes; so for the others.
    pub fn update(&self, map: usize, key: &[u8], value: &[u8]) -> Result<(), KernelError> {
        let Map { spec, span, .. } = &self.maps[map];
        assert_eq!(value.len(), spec.value_bytes as usize, "bytes of a value of {}", spec.name);
        let mut value = value.to_vec();
        value.resize(*span, 0);
        let done = self.element(Command::Update, map, key, &mut value, 0);
        done.map_err(|source| self.error(Command::Update, map, source))
    }

    /// Puts a program into a slot of an array of programs, which keeps it.
    pub fn set_program(&self, map: usize, index: u32, program: &Loaded) -> Result<(), KernelError> {
        self.update(map, &index.to_le_bytes(), &program.descriptor().to_le_bytes())
    }

    /// The value of a key; none if the key is not there.
    pub fn lookup(&self, map: usize, key: &[u8]) -> Result<Option<Vec<u8>>, KernelError> {
        let Map { spec, span, .. } = &self.maps[map];
        let mut value = vec![0; *span];
        match self.element(Command::Lookup, map, key, &mut value, 0) {
            Ok(()) if spec.kind.is_per_cpu() => Ok(Some(sum(&value, spec.value_bytes as usize))),
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(source) => Err(self.error(Command::Lookup, map, source)),
        }
    }

    /// Every key, each once, in the kernel's order. Of those that come and go meanwhile some may be left out.
    pub fn keys(&self, map: usize) -> Result<Vec<Vec<u8>>, KernelError> {
        let spec = &self.maps[map].spec;
        let (mut keys, mut seen): (Vec<Vec<u8>>, BTreeSet<Vec<u8>>) = Default::default();
        let mut last: Option<Vec<u8>> = None;
        // After a key that has gone the kernel begins anew.
        for _ in 0..u64::from(spec.max_entries) * WALKS_MAX + 1 {
            let mut next = vec![0; spec.key_bytes as usize];
            match self.call(Command::NextKey, map, last.as_deref().unwrap_or_default(), &mut next, 0) {
                Ok(()) => {
                    if seen.insert(next.clone()) {
                        keys.push(next.clone());
                    }
                    last = Some(next);
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                Err(source) => return Err(self.error(Command::NextKey, map, source)),
            }
        }
        Ok(keys)
    }

    /// Every key with its value, as [`Maps::keys`] finds them.
    pub fn entries(&self, map: usize) -> Result<Vec<Entry>, KernelError> {
        let mut entries = Vec::new();
        for key in self.keys(map)? {
            if let Some(value) = self.lookup(map, &key)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    /// Takes every key out; the values of an array become zeros.
    pub fn clear(&self, map: usize) -> Result<(), KernelError> {
        if self.maps[map].spec.kind.is_array() {
            return self.zero(map);
        }
        for key in self.keys(map)? {
            self.unless_gone(Command::Delete, map, &key, &mut [], 0)?;
        }
        Ok(())
    }

    /// Sets every value to zeros; a key that goes meanwhile stays away.
    pub fn zero(&self, map: usize) -> Result<(), KernelError> {
        let mut zeros = vec![0; self.maps[map].span];
        for key in self.keys(map)? {
            self.unless_gone(Command::Update, map, &key, &mut zeros, BPF_EXIST)?;
        }
        Ok(())
    }

    /// A command on a key that may be gone by now.
    fn unless_gone(
        &self,
        command: Command,
        map: usize,
        key: &[u8],
        value: &mut [u8],
        flags: u64,
    ) -> Result<(), KernelError> {
        match self.element(command, map, key, value, flags) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(self.error(command, map, error)),
            _ => Ok(()),
        }
    }

    /// User space changes the map no more: what libbpf does to `.rodata`, so that the verifier takes its contents as
    /// known.
    pub fn freeze(&self, map: usize) -> Result<(), KernelError> {
        let done = self.call(Command::Freeze, map, &[], &mut [], 0);
        done.map_err(|source| self.error(Command::Freeze, map, source))
    }

    /// One command on an element as bpf(2) has it: 0 or a negative errno. An empty key or value is none at all (a null pointer); values are as the
    /// kernel takes and gives them, of all CPUs one after the other.
    ///
    /// # Panics
    /// If a key or a value is given that is shorter than those of the map.
    pub fn command(&self, command: Command, map: usize, key: &[u8], value: &mut [u8], flags: u64) -> i64 {
        let done = self.call(command, map, key, value, flags);
        done.map_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(libc::EINVAL)), |()| 0)
    }

    fn call(&self, command: Command, map: usize, key: &[u8], value: &mut [u8], flags: u64) -> io::Result<()> {
        let spec = &self.maps[map].spec;
        let is_long_enough = |given: usize, wanted: usize| given == 0 || given >= wanted;
        assert!(is_long_enough(key.len(), spec.key_bytes as usize), "bytes of a key of {}", spec.name);
        let wanted = if command == Command::NextKey { spec.key_bytes as usize } else { self.maps[map].span };
        assert!(is_long_enough(value.len(), wanted), "bytes of a value of {}", spec.name);
        let address = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes.as_ptr() as u64 };
        let mut attributes = Element {
            map_fd: self.maps[map].fd.as_raw_fd() as u32,
            padding: 0,
            key: address(key),
            value: if value.is_empty() { 0 } else { value.as_mut_ptr() as u64 },
            flags,
        };
        // SAFETY: the buffers have the sizes of the map's keys and values, which was checked, and outlive this.
        unsafe { syscall::command(command as libc::c_long, &mut attributes) }.map(drop)
    }

    /// One of them, alone, which lives on as long as either does.
    pub fn share(&self, map: usize) -> io::Result<Maps> {
        let Map { spec, fd, span } = &self.maps[map];
        Ok(Maps { maps: vec![Map { spec: spec.clone(), fd: fd.try_clone()?, span: *span }], tables: None })
    }

    /// One that was made elsewhere.
    pub fn adopt(spec: MapSpec, fd: OwnedFd) -> Result<Maps, KernelError> {
        let span = span(&spec).map_err(KernelError::Cpus)?;
        Ok(Maps { maps: vec![Map { spec, fd, span }], tables: None })
    }

    /// These maps, then those.
    pub fn chain(mut self, more: Maps) -> Maps {
        self.maps.extend(more.maps);
        self
    }

    /// Puts one more behind them; its index. `map`: a single one.
    pub fn append(&mut self, map: Maps) -> u32 {
        self.maps.extend(map.maps);
        self.maps.len() as u32 - 1
    }

    /// From now on programs are loaded so that they use these instead of maps of the kernel's.
    pub fn use_tables(&mut self, tables: Tables) {
        self.tables = Some(tables);
    }

    pub(crate) fn linked(&self, insns: &[Insn]) -> Code {
        self.tables.as_ref().map_or_else(|| Code::of(insns), |tables| table::link(insns, tables))
    }

    /// The descriptor of one.
    pub fn fd(&self, map: usize) -> BorrowedFd<'_> {
        self.maps[map].fd.as_fd()
    }

    pub(crate) fn at(&self, map: usize) -> (&MapSpec, &OwnedFd) {
        let Map { spec, fd, .. } = &self.maps[map];
        (spec, fd)
    }

    pub(crate) fn count(&self) -> usize {
        self.maps.len()
    }

    pub(crate) fn descriptor(&self, map: usize) -> Option<i32> {
        self.maps.get(map).map(|map| map.fd.as_raw_fd())
    }

    /// [`Maps::call`] with a whole key.
    fn element(
        &self,
        command: Command,
        map: usize,
        key: &[u8],
        value: &mut [u8],
        flags: u64,
    ) -> io::Result<()> {
        let spec = &self.maps[map].spec;
        assert_eq!(key.len(), spec.key_bytes as usize, "bytes of a key of {}", spec.name);
        self.call(command, map, key, value, flags)
    }

    fn error(&self, command: Command, map: usize, source: io::Error) -> KernelError {
        KernelError::Call { call: command.name(), name: self.maps[map].spec.name.clone(), source }
    }
}

/// A flag of an update: the key is there.
const BPF_EXIST: u64 = 2;

/// How often a map is walked through whose keys come and go.
const WALKS_MAX: u64 = 4;

/// Bytes that bpf(2) has for a value.
fn span(spec: &MapSpec) -> io::Result<usize> {
    match spec.kind.is_per_cpu() {
        true => Ok(spec.value_bytes.next_multiple_of(8) as usize * possible_cpus()?),
        false => Ok(spec.value_bytes as usize),
    }
}

/// The sum of the values of all CPUs, of `bytes` bytes each.
fn sum(values: &[u8], bytes: usize) -> Vec<u8> {
    let mut sums = vec![0u64; bytes.div_ceil(8)];
    for value in values.chunks_exact(sums.len().max(1) * 8) {
        for (sum, word) in sums.iter_mut().zip(value.chunks_exact(8)) {
            *sum = sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
    }
    let mut sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    sums.truncate(bytes);
    sums
}

/// CPUs that the kernel has values for. An error where it cannot be read: with a guess that is too low the kernel would write beyond the buffer.
pub fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = list.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other(format!("possible CPUs: {list:?}")))
}

/// As libbpf does: perf events without a number of entries are as many as CPUs.
fn entries(spec: &MapSpec) -> u32 {
    let is_open = spec.kind == MapKind::PerfEventArray && spec.max_entries == 0;
    // SAFETY: takes a number.
    let cpus = || unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    if is_open { u32::try_from(cpus()).unwrap_or(1) } else { spec.max_entries }
}

/// `like`: what a map that holds maps holds.
fn create(spec: &MapSpec, like: Option<&OwnedFd>) -> Result<OwnedFd, KernelError> {
    let mut attributes = MapCreate {
        map_type: spec.kind as u32,
        key_size: spec.key_bytes,
        value_size: spec.value_bytes,
        max_entries: entries(spec),
        map_flags: spec.kernel_flags(),
        inner_map_fd: like.map_or(0, |like| like.as_raw_fd() as u32),
        numa_node: 0,
        map_name: syscall::object_name(&spec.name),
        other: [0; 5],
        map_extra: spec.extra,
    };
    // SAFETY: the attributes hold no addresses, and the answer is a descriptor.
    let opened = unsafe { syscall::open(syscall::MAP_CREATE, &mut attributes) };
    opened.map_err(|source| KernelError::Call { call: "BPF_MAP_CREATE", name: spec.name.clone(), source })
}
