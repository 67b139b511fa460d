//! Maps of an object, in the kernel.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use weir_ebpf::{MapKind, MapSpec};

use crate::syscall::{self, Element, MapCreate};
use crate::{KernelError, Loaded};

/// An object's maps, in its order.
#[derive(Debug)]
pub struct Maps {
    maps: Vec<(MapSpec, OwnedFd)>,
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
        // SANITY: each is made in one of the two rounds.
        let made = maps.into_iter().map(|map| map.expect("every map was made"));
        Ok(Maps { maps: specs.iter().cloned().zip(made).collect() })
    }

    /// Puts map `held` into map `map`, which holds maps.
    pub fn hold(&self, map: usize, key: &[u8], held: usize) -> Result<(), KernelError> {
        let descriptor = self.maps[held].1.as_raw_fd() as u32;
        self.update(map, key, &descriptor.to_le_bytes())
    }

    /// Sets one value of a map that has one value per key.
    ///
    /// # Panics
    /// If key or value are not of the map's sizes; so for the others.
    pub fn update(&self, map: usize, key: &[u8], value: &[u8]) -> Result<(), KernelError> {
        let (spec, _) = &self.maps[map];
        assert!(!spec.kind.is_per_cpu(), "a value for each CPU is not set here");
        assert_eq!(value.len(), spec.value_bytes as usize, "bytes of a value of {}", spec.name);
        let mut value = value.to_vec();
        self.element(syscall::MAP_UPDATE_ELEM, map, key, &mut value)
            .map_err(|source| self.error("BPF_MAP_UPDATE_ELEM", map, source))
    }

    /// Puts a program into a slot of an array of programs, which keeps it.
    pub fn set_program(&self, map: usize, index: u32, program: &Loaded) -> Result<(), KernelError> {
        self.update(map, &index.to_le_bytes(), &program.descriptor().to_le_bytes())
    }

    /// A value of a map that has one value per key; none if the key is not there.
    pub fn lookup(&self, map: usize, key: &[u8]) -> Result<Option<Vec<u8>>, KernelError> {
        let (spec, _) = &self.maps[map];
        assert!(!spec.kind.is_per_cpu(), "a value for each CPU is not read here");
        let mut value = vec![0; spec.value_bytes as usize];
        match self.element(syscall::MAP_LOOKUP_ELEM, map, key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(source) => Err(self.error("BPF_MAP_LOOKUP_ELEM", map, source)),
        }
    }

    /// Every key of a map that nobody changes meanwhile, in the kernel's order.
    pub fn keys(&self, map: usize) -> Result<Vec<Vec<u8>>, KernelError> {
        let bytes = self.maps[map].0.key_bytes as usize;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; bytes];
            let previous = keys.last().map_or(0, |key| key.as_ptr() as u64);
            match self.raw(syscall::MAP_GET_NEXT_KEY, map, previous, next.as_mut_ptr() as u64) {
                Ok(()) => keys.push(next),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
                Err(source) => return Err(self.error("BPF_MAP_GET_NEXT_KEY", map, source)),
            }
        }
    }

    /// User space changes the map no more: what libbpf does to `.rodata`, so that the verifier takes its contents as
    /// known.
    pub fn freeze(&self, map: usize) -> Result<(), KernelError> {
        self.raw(syscall::MAP_FREEZE, map, 0, 0).map_err(|source| self.error("BPF_MAP_FREEZE", map, source))
    }

    pub(crate) fn count(&self) -> usize {
        self.maps.len()
    }

    pub(crate) fn descriptor(&self, map: usize) -> Option<i32> {
        self.maps.get(map).map(|(_, fd)| fd.as_raw_fd())
    }

    fn element(&self, command: libc::c_long, map: usize, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        let spec = &self.maps[map].0;
        assert_eq!(key.len(), spec.key_bytes as usize, "bytes of a key of {}", spec.name);
        // A key of no bytes is no address.
        let key = if key.is_empty() { 0 } else { key.as_ptr() as u64 };
        self.raw(command, map, key, value.as_mut_ptr() as u64)
    }

    fn raw(&self, command: libc::c_long, map: usize, key: u64, value: u64) -> io::Result<()> {
        let map_fd = self.maps[map].1.as_raw_fd() as u32;
        let mut attributes = Element { map_fd, padding: 0, key, value, flags: 0 };
        // SAFETY: the callers' buffers have the sizes of the map's keys and values, which they check, and outlive this.
        unsafe { syscall::command(command, &mut attributes) }.map(drop)
    }

    fn error(&self, call: &'static str, map: usize, source: io::Error) -> KernelError {
        KernelError::Call { call, name: self.maps[map].0.name.clone(), source }
    }
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
