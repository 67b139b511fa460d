//! Memory: which bytes an access or a helper's argument reaches, and whether it may.

use weir_ebpf::context::{Meaning, field};
use weir_ebpf::map::flag;

use crate::explore::{Path, Walk};
use crate::limits::STACK_BYTES;
use crate::places::{FramePlaces, stack_places};
use crate::rejection::{Refusal, refuse};
use crate::scalar::Scalar;
use crate::state::{StackAt, StackSpan, Value};
use crate::step::signed;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Load,
    Store,
    /// As a load and a store, with the alignment of an atomic operation.
    Acquire,
    Release,
    Atomic {
        fetch: bool,
    },
}

impl Access {
    fn reads(self) -> bool {
        !matches!(self, Access::Store | Access::Release)
    }

    fn writes(self) -> bool {
        !matches!(self, Access::Load | Access::Acquire)
    }
}

/// What an access reaches, in bounds and aligned as it must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Place {
    /// In the stack of a live frame.
    Stack(StackAt),
    /// Somewhere in the stack of a live frame.
    StackSpan(StackSpan),
    /// At this offset in the `pt_regs` of a probe.
    Context(u32),
    /// A field of a packet's context: what is there, and the byte offset and bytes of the access in its slots.
    Field(Meaning, u32, u32),
    /// A map's value, a ring's record, a packet or memory: always initialised.
    Object,
}

impl Walk<'_> {
    /// The place of a load, store or atomic of `bytes` at `base + off`.
    pub(crate) fn access(
        &mut self,
        path: &Path,
        base: u8,
        off: i16,
        bytes: u32,
        access: Access,
    ) -> Result<Place, Refusal> {
        let pointer = self.value(path, base)?;
        let per_cpu = self.per_cpu_map(pointer);
        self.touch_per_cpu(path.at, per_cpu);
        // All else could meet another thread's, unless the run has the lane alone.
        self.needs_lane |= per_cpu.is_some() && access != (Access::Atomic { fetch: false });
        let (off, size) = (i64::from(off), i64::from(bytes));
        let is_field = pointer == Value::Context && self.kind.is_packet();
        let found = u32::try_from(off).ok().filter(|_| is_field).and_then(|off| field(self.kind, off));
        self.touch_field(path.at, found)?;
        match pointer {
            Value::Context if is_field => self.field(found, off, bytes, access),
            Value::Stack(start) => {
                let at = StackAt { off: start.off + off, ..start };
                self.stack_range(path, at, size)?;
                if at.off % size != 0 {
                    return refuse(format!(
                        "the stack at r10{} is not aligned to {size} bytes",
                        signed(at.off)
                    ));
                }
                Ok(Place::Stack(at))
            }
            Value::StackSpan(span) => {
                let offset = crate::alu::add(span.offset, Scalar::constant(off as u64));
                let span = StackSpan { offset, ..span };
                let (first, reached) = span.reach(size);
                self.stack_range(path, first, reached)?;
                if (offset.bits.value | offset.bits.mask) & (size as u64 - 1) != 0 {
                    return refuse(format!(
                        "an access of {size} bytes through {}{}, which may not be aligned",
                        self.describe(pointer),
                        signed(off)
                    ));
                }
                Ok(Place::StackSpan(span))
            }
            Value::ContextAt(_) => refuse(format!(
                "r{base} is {}; the context is read at constant offsets from its own address alone",
                self.describe(pointer)
            )),
            Value::Context if access == Access::Acquire => refuse("the context is read by plain loads alone"),
            Value::Context if access != Access::Load => refuse("the context is read-only"),
            Value::Context => {
                let end = i64::from(weir_ebpf::context::structure_bytes(self.kind));
                if off < 0 || off + size > end || off % size != 0 {
                    return refuse(format!(
                        "a load of {size} bytes at offset {off} of the context; it has {end} bytes, and loads are \
                         aligned to their size"
                    ));
                }
                Ok(Place::Context(off as u32))
            }
            Value::Packet(_) if !matches!(access, Access::Load | Access::Store) => {
                refuse("packets are read and written by plain loads and stores alone")
            }
            Value::Packet(_) if access.writes() && !self.kind.writes_packets() => {
                refuse(format!("programs of kind {} only read packets", self.kind.name()))
            }
            Value::Packet(_) => {
                self.writes_packet |= access.writes();
                self.seen[path.at].may_misalign |= size > 1;
                self.object_range(pointer, off, size)?;
                Ok(Place::Object)
            }
            Value::Key { .. } if access != Access::Load => {
                refuse(format!("{} is read by plain loads alone", self.describe(pointer)))
            }
            Value::Key { .. } => {
                self.seen[path.at].may_misalign |= size > 1;
                self.object_range(pointer, off, size)?;
                Ok(Place::Object)
            }
            Value::Element { offset, .. } | Value::Record { offset, .. } | Value::Memory { offset, .. } => {
                let atomic = !matches!(access, Access::Load | Access::Store);
                self.check_rights(pointer, access.reads(), access.writes())?;
                self.object_range(pointer, off, size)?;
                // Objects begin at multiples of 8, but parts of dynptrs, which begin anywhere.
                let bits = crate::alu::add(offset, Scalar::constant(off as u64)).bits;
                let is_part = matches!(pointer, Value::Record { dynptr: Some(_), .. });
                let may_misalign =
                    (bits.value | bits.mask) & (u64::from(bytes) - 1) != 0 || is_part && bytes > 1;
                self.seen[path.at].may_misalign |= may_misalign;
                if atomic && may_misalign {
                    return refuse(format!(
                        "an atomic operation of {size} bytes through {}{}, which may not be aligned",
                        self.describe(pointer),
                        signed(off)
                    ));
                }
                Ok(Place::Object)
            }
            Value::ElementOrNull { .. } | Value::RecordOrNull { .. } | Value::InnerMapOrNull { .. } => {
                refuse(format!("r{base} is {}; it must be compared with 0 first", self.describe(pointer)))
            }
            _ => refuse(format!("r{base} is {}, not a pointer to memory", self.describe(pointer))),
        }
    }

    /// The map that `pointer` points into lets programs read, and write, as `reads` and `writes` say they do.
    pub(crate) fn check_rights(&self, pointer: Value, reads: bool, writes: bool) -> Result<(), Refusal> {
        let Value::Element { map, .. } = pointer else { return Ok(()) };
        let map = &self.maps[map as usize];
        if writes && map.kind.redirects() {
            return refuse(format!("programs only read the elements of {}, a {}", map.name, map.kind.name()));
        }
        if writes && map.has(flag::RDONLY_PROG) {
            return refuse(format!(
                "{} is read-only (BPF_F_RDONLY_PROG); a program may not write to it",
                map.name
            ));
        }
        if reads && map.has(flag::WRONLY_PROG) {
            return refuse(format!(
                "{} is write-only (BPF_F_WRONLY_PROG); a program may not read it",
                map.name
            ));
        }
        Ok(())
    }

    /// The per-CPU map that `pointer` points into.
    pub(crate) fn per_cpu_map(&self, pointer: Value) -> Option<u32> {
        match pointer {
            Value::Element { map, .. } if self.maps[map as usize].kind.is_per_cpu() => Some(map),
            _ => None,
        }
    }

    /// `bytes` bytes at `at` are inside the stack of its frame.
    pub(crate) fn stack_range(&mut self, path: &Path, at: StackAt, bytes: i64) -> Result<(), Refusal> {
        let off = at.off;
        if off < -STACK_BYTES || off + bytes > 0 {
            return refuse(format!(
                "{bytes} bytes at r10{} are outside the stack (r10-{STACK_BYTES:#x} to r10)",
                signed(off)
            ));
        }
        self.touch_stack(path, at.frame.into(), off);
        Ok(())
    }

    /// `bytes` bytes at `off` from where `pointer` points are inside its object.
    pub(crate) fn object_range(&self, pointer: Value, off: i64, bytes: i64) -> Result<(), Refusal> {
        let (offset, size) = match pointer {
            Value::Element { map, offset } => (offset, self.maps[map as usize].value_bytes),
            Value::Key { map, offset } => (offset, self.maps[map as usize].key_bytes),
            Value::Record { size, offset, .. } | Value::Memory { size, offset } => (offset, size),
            Value::Packet(at) => return self.packet_range(at, off, bytes),
            _ => return refuse(format!("{} points to no object", self.describe(pointer))),
        };
        // Offsets are within POINTER_OFFSET_MAX, so that the sums cannot wrap.
        if offset.smin + off < 0 || offset.smax + off + bytes > i64::from(size) {
            return refuse(format!(
                "{bytes} bytes at {}{} are not known to be inside its {size} bytes",
                self.describe(pointer),
                signed(off)
            ));
        }
        Ok(())
    }

    /// What a load of `bytes` at `at` gives; the place was checked.
    pub(crate) fn load_stack(&mut self, path: &Path, at: StackAt, bytes: u32) -> Result<Value, Refusal> {
        self.read(path, at.frame.into(), stack_places(at.off, bytes.into()));
        match path.state.stack_load(at, bytes) {
            Ok(value) => Ok(value),
            Err(what) => {
                self.reads_unwritten.set(true);
                refuse(format!("the {bytes} bytes at r10{} hold {what}", signed(at.off)))
            }
        }
    }

    /// Stores at `at`; the place was checked.
    pub(crate) fn store_stack(
        &mut self,
        path: &mut Path,
        at: StackAt,
        bytes: u32,
        value: Value,
    ) -> Result<(), Refusal> {
        if let Some(pointer) = StackSpan::of(value)
            && pointer.frame > at.frame
        {
            return refuse(
                "a pointer into a function's stack is stored in its caller's, where it would outlive it",
            );
        }
        // A key is there as long as its callback runs. Frames of functions that the callback calls end before.
        if let Value::Key { .. } = value
            && usize::from(at.frame) != path.state.depth()
        {
            return refuse(format!(
                "{} is stored in a caller's stack, where it would outlive the callback that it was given to",
                self.describe(value)
            ));
        }
        path.state.stack_store(at, bytes, value);
        if bytes == 8 {
            path.written.add(at.frame.into(), stack_places(at.off, 8));
        }
        Ok(())
    }

    /// What a load of `bytes` somewhere in `span` gives: a number, since nothing there is a pointer.
    pub(crate) fn load_span(&mut self, path: &Path, span: StackSpan, bytes: u32) -> Result<Value, Refusal> {
        let (first, reached) = span.reach(bytes.into());
        self.read(path, first.frame.into(), stack_places(first.off, reached));
        match path.state.stack_unreadable(first, reached) {
            None => Ok(Value::Scalar(Scalar::UNKNOWN.low(8 * bytes))),
            Some(at) => {
                self.reads_unwritten.set(true);
                refuse(format!(
                    "the {bytes} bytes anywhere from r10{} on may include the byte at r10{}, which was never written or is \
                 part of a pointer",
                    signed(first.off),
                    signed(at)
                ))
            }
        }
    }

    /// Stores a number somewhere in `span`: of no byte there is known whether it is still what it was.
    pub(crate) fn store_span(&mut self, path: &mut Path, span: StackSpan, bytes: u32) {
        let (first, reached) = span.reach(bytes.into());
        path.state.stack_overwrite(first, reached, false);
    }

    /// A helper reads `bytes` bytes at `pointer`: they are there, initialised, and no pointers.
    pub(crate) fn helper_reads(&mut self, path: &Path, pointer: Value, bytes: i64) -> Result<(), Refusal> {
        if let Some(span) = StackSpan::of(pointer) {
            let (from, bytes) = span.reach(bytes);
            let off = from.off;
            self.stack_range(path, from, bytes)?;
            self.read(path, from.frame.into(), stack_places(off, bytes));
            return match path.state.stack_unreadable(from, bytes) {
                None => Ok(()),
                Some(at) => {
                    self.reads_unwritten.set(true);
                    refuse(format!(
                        "the helper reads {bytes} bytes at r10{}, but the byte at r10{} was never written or is part of \
                     a pointer",
                        signed(off),
                        signed(at)
                    ))
                }
            };
        }
        self.check_rights(pointer, true, false)?;
        self.helper_object(pointer, bytes)
    }

    /// A helper reads `bytes` bytes at `pointer`, which may be pointers: it does not give them away, and what they
    /// point to it reads safely.
    pub(crate) fn helper_reads_words(
        &mut self,
        path: &Path,
        pointer: Value,
        bytes: i64,
    ) -> Result<(), Refusal> {
        let Some(span) = StackSpan::of(pointer) else { return self.helper_reads(path, pointer, bytes) };
        let (from, bytes) = span.reach(bytes);
        self.stack_range(path, from, bytes)?;
        self.read(path, from.frame.into(), stack_places(from.off, bytes));
        match path.state.stack_unwritten(from, bytes) {
            None => Ok(()),
            Some(at) => {
                self.reads_unwritten.set(true);
                refuse(format!(
                    "the helper reads {bytes} bytes at r10{}, but the byte at r10{} was never written",
                    signed(from.off),
                    signed(at)
                ))
            }
        }
    }

    /// A helper writes at least `least` and at most `most` bytes at `pointer`.
    pub(crate) fn helper_writes(
        &mut self,
        path: &mut Path,
        pointer: Value,
        least: i64,
        most: i64,
    ) -> Result<(), Refusal> {
        let Some(span) = StackSpan::of(pointer) else {
            if let Value::Key { .. } = pointer {
                return refuse(format!("{} is not to be written", self.describe(pointer)));
            }
            let is_packet = matches!(pointer, Value::Packet(_));
            if is_packet && !self.kind.writes_packets() {
                return refuse(format!("programs of kind {} only read packets", self.kind.name()));
            }
            self.writes_packet |= is_packet;
            self.check_rights(pointer, false, true)?;
            return self.helper_object(pointer, most);
        };
        let (from, reached) = span.reach(most);
        self.stack_range(path, from, reached)?;
        path.state.stack_overwrite(from, reached, false);
        // What is written wherever it begins: none if it may begin so far on that nothing is.
        let (first, certain) = (from.off + reached - most, least - (reached - most));
        if certain > 0 {
            path.state.stack_overwrite(StackAt { off: first, ..from }, certain, true);
            path.written.add(from.frame.into(), whole_slots(first, certain));
        }
        Ok(())
    }

    /// A helper reaches `bytes` bytes of a map's value, a ring's record, a packet or memory.
    fn helper_object(&mut self, pointer: Value, bytes: i64) -> Result<(), Refusal> {
        self.needs_lane |= self.per_cpu_map(pointer).is_some();
        match pointer {
            Value::Element { .. }
            | Value::Key { .. }
            | Value::Record { .. }
            | Value::Packet(_)
            | Value::Memory { .. } => self.object_range(pointer, 0, bytes),
            Value::ElementOrNull { .. } | Value::RecordOrNull { .. } | Value::InnerMapOrNull { .. } => {
                refuse(format!("{} must be compared with 0 before a helper gets it", self.describe(pointer)))
            }
            _ => refuse(format!("{} is not memory that a helper may reach", self.describe(pointer))),
        }
    }
}

/// The slots of which every byte lies in the `bytes` bytes at `off`.
fn whole_slots(off: i64, bytes: i64) -> FramePlaces {
    let (start, end) = ((off + 7).div_euclid(8) * 8, (off + bytes).div_euclid(8) * 8);
    if start < end { stack_places(start, end - start) } else { 0 }
}
