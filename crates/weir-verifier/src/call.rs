//! Calls: of helpers by the contract in `weir_ebpf::helper`, argument by argument; of the program's own functions by
//! going into them.

use weir_ebpf::context::packet;
use weir_ebpf::helper::{self, Arg, HelperProto, Ret};
use weir_ebpf::kfunc::{self, DeclaredCopy, KfuncId, TEXT_BYTES_MAX, TextTest};
use weir_ebpf::map::flag;
use weir_ebpf::{HelperId, MapKind, MapSpec, ProgramKind, pt_regs};

use crate::explore::{Next, Path, Same, Walk};
use crate::limits::{CALL_DEPTH_MAX, ERRNO_MAX, RING_HEADER_BYTES};
use crate::links::{Link, Spot};
use crate::places::{WHOLE_FRAME, register_place, register_places, slot_of, stack_places};
use crate::rejection::{Refusal, refuse, unsupported};
use crate::scalar::Scalar;
use crate::slot::Slot;
use crate::state::{Return, StackAt, StackSpan, Value};
use crate::step::{clobber, has_id, write};

/// What the arguments of one call showed.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) map: Option<u32>,
    /// The map is held by another one: `map` is only what it is like.
    is_inner: bool,
    /// The constant in the key's memory, for an array.
    key: Option<u32>,
    /// The last memory argument, which the next size is about.
    memory: Option<(Value, Arg)>,
    /// What the helper writes: pointer, least and most bytes.
    writes: Option<(Value, i64, i64)>,
    record_bytes: Option<u32>,
    /// The record that the call takes back.
    released: Option<u32>,
    /// Where a dynptr is to be made; the record of the one that is there.
    new_dynptr: Option<StackAt>,
    dynptr: Option<u32>,
    /// Most bytes of the last size argument.
    size_max: i64,
    /// Bytes from a constant string to the end of its value.
    string_bytes: Option<u32>,
    /// The last plain number, if it is a constant: an update's flags.
    flags: Option<u64>,
    /// The slot where the callback begins.
    pub(crate) callback: Option<usize>,
}

/// BPF_NOEXIST, of an update's flags.
const NOEXIST: u64 = 1;

impl<'a> Walk<'a> {
    pub(crate) fn call(&mut self, path: &mut Path, helper: &HelperProto) -> Result<(), Refusal> {
        if let Some(whose) = not_for(helper, self.kind) {
            return unsupported(format!(
                "{} is for {whose}, not for programs of kind {}",
                helper.name,
                self.kind.name()
            ));
        }
        if helper.access.changes && !self.limits.allow_changes {
            return refuse(format!(
                "{} changes the process it runs in, which has to be allowed expressly",
                helper.name
            ));
        }
        let found = self.arguments(path, helper)?;
        if helper.id == helper::TAIL_CALL {
            self.check_tail_call(path, &found)?;
        }
        if let Some((pointer, least, most)) = found.writes {
            if helper::OF_SK_BUFFS.contains(&helper.id) && matches!(pointer, Value::Packet(_)) {
                return refuse(format!("{} copies a packet to where no packet is", helper.name));
            }
            self.helper_writes(path, pointer, least, most)?;
        }
        if let Some(at) = found.new_dynptr {
            self.make_dynptr(path, at);
        }
        if let Some(id) = found.released {
            path.state.records.retain(|held| *held != id);
            path.state.replace(|value| has_id(value, id).then_some(Value::Uninit));
        }
        if helper::MOVE_PACKETS.contains(&helper.id) {
            path.state.replace(|value| {
                matches!(value, Value::Packet(_) | Value::PacketEnd).then_some(Value::Uninit)
            });
        }
        clobber(path);
        let result = self.result(path, helper, &found);
        write(path, 0, result);
        self.note(path.at, helper, &found);
        Ok(())
    }

    /// Checks every argument by its contract.
    pub(crate) fn arguments(&mut self, path: &Path, helper: &HelperProto) -> Result<Arguments, Refusal> {
        let mut found = Arguments::default();
        for (index, arg) in helper.args.iter().enumerate() {
            let register = index as u8 + 1;
            self.argument(path, helper, *arg, register, &mut found).map_err(|refusal| Refusal {
                message: format!("r{register} of {}: {}", helper.name, refusal.message),
                ..refusal
            })?;
        }
        Ok(found)
    }

    /// Into a function of the program. Its arguments are what the caller has in r1 to r5.
    pub(crate) fn call_local(&mut self, path: &mut Path, target: usize) -> Result<Next, Refusal> {
        let given = (1..=5u8).filter(|at| path.state.registers[usize::from(*at)] != Value::Uninit);
        let given = given.fold(0, |places, at| places | register_place(at));
        self.read(path, path.state.depth(), given);
        let [_, r1, r2, r3, r4, r5, ..] = path.state.registers;
        let depth = path.state.depth();
        let linked = |register: u8| Some((register, path.state.links.of(depth, Spot::Register(register))?));
        let links: Vec<(u8, Link)> = (1..=5).filter_map(linked).collect();
        for (register, _) in &links {
            self.rests_on_link(path, depth, register_place(*register));
        }
        enter(path, [r1, r2, r3, r4, r5])?;
        for (register, link) in links {
            path.state.links.set(depth + 1, Spot::Register(register), link);
        }
        Ok(Next::To(target))
    }

    /// Out of a function of the program, back to its caller, or the end.
    pub(crate) fn leave(&mut self, path: &mut Path) -> Result<Next, Refusal> {
        let depth = path.state.depth();
        if depth == 0 {
            return self.exit(path);
        }
        // A function without a result may leave nothing in r0: then its caller has nothing there.
        self.read(path, depth, register_place(0));
        self.rests_on_link(path, depth, register_place(0));
        if let Some(span) = StackSpan::of(path.state.registers[0])
            && usize::from(span.frame) == depth
        {
            return refuse("r0 points into the stack of the function that ends here");
        }
        self.check_round(path)?;
        let Some(Return { to, is_round }) = path.state.leave() else { return Ok(Next::End) };
        path.written.add(depth - 1, if is_round { register_place(0) } else { register_places(0, 5) });
        Ok(Next::To(to))
    }

    fn argument(
        &mut self,
        path: &Path,
        helper: &HelperProto,
        arg: Arg,
        register: u8,
        found: &mut Arguments,
    ) -> Result<(), Refusal> {
        let value = match arg {
            Arg::Any if path.state.registers[usize::from(register)] == Value::Uninit => return Ok(()),
            _ => self.value(path, register)?,
        };
        match arg {
            Arg::Scalar => {
                found.flags = self.number(path, register)?.as_constant();
                Ok(())
            }
            Arg::Any => Ok(()),
            Arg::Address => self.address(value),
            Arg::ConstString => self.const_string(value, found),
            Arg::Callback => {
                let Value::Function(slot) = value else {
                    return refuse(format!(
                        "a function of the program is needed, not {}",
                        self.describe(value)
                    ));
                };
                found.callback = Some(slot as usize);
                Ok(())
            }
            Arg::StackOrNull => match value {
                Value::Stack(_) | Value::StackSpan(_) => Ok(()),
                Value::Scalar(number) if number.as_constant() == Some(0) => Ok(()),
                other => refuse(format!("a stack pointer or 0 is needed, not {}", self.describe(other))),
            },
            Arg::Context if value == Value::Context => Ok(()),
            Arg::Context => refuse(format!("the context is needed, not {}", self.describe(value))),
            Arg::Map
            | Arg::RingMap
            | Arg::QueueMap
            | Arg::PerfMap
            | Arg::StackMap
            | Arg::CgroupMap
            | Arg::RedirectMap
            | Arg::ProgMap => {
                let (index, is_inner) = match value {
                    Value::Map(index) => (index, false),
                    Value::InnerMap(like) => (like, true),
                    Value::InnerMapOrNull { .. } => {
                        return refuse(format!("{} must be compared with 0 first", self.describe(value)));
                    }
                    _ => return refuse(format!("a map is needed, not {}", self.describe(value))),
                };
                check_kind(helper, arg, &self.maps[index as usize])?;
                if is_inner && helper.args.contains(&Arg::Callback) {
                    return unsupported(format!("{} on a map that another map holds", helper.name));
                }
                found.is_inner = is_inner;
                found.map = Some(index);
                Ok(())
            }
            Arg::MapKey => {
                let map = self.map_of(found)?;
                self.helper_reads(path, value, map.key_bytes.into())?;
                found.key = self.constant_key(path, value, map);
                Ok(())
            }
            Arg::MapValue => {
                let map = self.map_of(found)?;
                self.helper_reads(path, value, map.value_bytes.into())
            }
            Arg::MapValueOut => {
                let map = self.map_of(found)?;
                let bytes = i64::from(map.value_bytes);
                if map.kind == MapKind::BloomFilter {
                    return self.helper_reads(path, value, bytes);
                }
                // As for memory with a size: the state changes when all arguments are checked.
                found.writes = Some((value, bytes, bytes));
                self.helper_writes(&mut path.clone(), value, bytes, bytes)
            }
            Arg::MemRead | Arg::Words | Arg::MemWrite | Arg::MemUpdate | Arg::StringWrite => {
                found.memory = Some((value, arg));
                Ok(())
            }
            Arg::Size | Arg::SizeOrZero => self.size(path, arg, register, found),
            Arg::ConstSize => {
                let size = self.number(path, register)?;
                let ring = self.map_of(found)?;
                let most = ring.max_entries - RING_HEADER_BYTES;
                match size.as_constant() {
                    Some(bytes @ 1..) if bytes <= most.into() => found.record_bytes = Some(bytes as u32),
                    Some(bytes) => {
                        return refuse(format!("a record of {bytes} bytes; the limits are 1 and {most}"));
                    }
                    None => return refuse(format!("the size is {size}; it must be a constant")),
                }
                Ok(())
            }
            Arg::RingRecord => match value {
                Value::Record { offset, id, dynptr: None, .. } if offset.as_constant() == Some(0) => {
                    found.released = Some(id);
                    Ok(())
                }
                Value::RecordOrNull { dynptr: None, .. } => {
                    refuse("the record may be null; it must be compared with 0 first")
                }
                other => {
                    refuse(format!("the start of a ring record is needed, not {}", self.describe(other)))
                }
            },
            Arg::NewDynptr => {
                let at = self.dynptr_place(path, value)?;
                found.new_dynptr = Some(at);
                Ok(())
            }
            Arg::Dynptr | Arg::ReleasedDynptr => {
                let at = self.dynptr_place(path, value)?;
                let id = self.dynptr_at(path, at)?;
                found.dynptr = Some(id);
                found.released = (arg == Arg::ReleasedDynptr).then_some(id);
                Ok(())
            }
            Arg::SliceSize => {
                let size = self.number(path, register)?;
                match size.as_constant() {
                    Some(bytes) if bytes <= helper::DYNPTR_SIZE_MAX.into() => {
                        found.record_bytes = Some(bytes as u32);
                        Ok(())
                    }
                    Some(bytes) => {
                        refuse(format!("{bytes} bytes of a dynptr; the limit is {}", helper::DYNPTR_SIZE_MAX))
                    }
                    None => refuse(format!("the size is {size}; it must be a constant")),
                }
            }
        }
    }

    /// Where a dynptr is, or is to be: in a stack, at a constant place.
    fn dynptr_place(&mut self, path: &Path, value: Value) -> Result<StackAt, Refusal> {
        match value {
            Value::Stack(at) if at.off % 8 == 0 => {
                self.stack_range(path, at, helper::DYNPTR_BYTES.into())?;
                Ok(at)
            }
            other => refuse(format!(
                "a place in the stack is needed that is constant and a multiple of 8, for a dynptr, not {}",
                self.describe(other)
            )),
        }
    }

    /// The record of the dynptr at `at`.
    fn dynptr_at(&mut self, path: &Path, at: StackAt) -> Result<u32, Refusal> {
        let frame = usize::from(at.frame);
        self.read(path, frame, stack_places(at.off, helper::DYNPTR_BYTES.into()));
        let half = |off: i64| match path.state.slot(frame, slot_of(off)) {
            Slot::Spilled(Value::Dynptr { id, is_second }) => Some((id, is_second)),
            _ => None,
        };
        match (half(at.off), half(at.off + 8)) {
            (Some((id, false)), Some((other, true))) if id == other => Ok(id),
            _ => refuse(format!(
                "there is no dynptr at r10{:+}: none was made there, or it was written over, or its record is gone",
                at.off
            )),
        }
    }

    /// A dynptr begins, with a record that is to be given back whether it was to be had or not.
    fn make_dynptr(&mut self, path: &mut Path, at: StackAt) {
        let id = self.new_id();
        path.state.records.push(id);
        for (off, is_second) in [(at.off, false), (at.off + 8, true)] {
            path.state.stack_store(StackAt { off, ..at }, 8, Value::Dynptr { id, is_second });
        }
        path.written.add(at.frame.into(), stack_places(at.off, helper::DYNPTR_BYTES.into()));
    }

    /// A size in `register`, and the memory argument before it.
    fn size(&mut self, path: &Path, arg: Arg, register: u8, found: &mut Arguments) -> Result<(), Refusal> {
        let size = self.number(path, register)?;
        let Some((pointer, access)) = found.memory.take() else {
            return refuse("the helper's table has a size without memory");
        };
        if arg == Arg::Size && size.min == 0 {
            return refuse(format!("the size is {size}; 0 is not allowed"));
        }
        if size.max > crate::limits::POINTER_OFFSET_MAX as u64 {
            return refuse(format!("the size is {size}; an upper bound within the memory must be known"));
        }
        let most = size.max as i64;
        // A string may end at its first byte; what lies behind it is as it was.
        let least = if access == Arg::StringWrite { size.min.min(1) } else { size.min } as i64;
        found.size_max = most;
        if most == 0 && pointer == Value::Scalar(Scalar::constant(0)) {
            return Ok(());
        }
        let naming = |refusal: Refusal| Refusal {
            message: format!("for the memory in r{}, {}", register - 1, refusal.message),
            ..refusal
        };
        if access == Arg::MemUpdate {
            self.helper_reads(path, pointer, most).map_err(naming)?;
        }
        match access {
            Arg::MemRead => self.helper_reads(path, pointer, most).map_err(naming),
            Arg::Words => self.helper_reads_words(path, pointer, most).map_err(naming),
            _ => {
                // The state changes when all arguments are checked; here only that the memory is there.
                found.writes = Some((pointer, least, most));
                self.helper_writes(&mut path.clone(), pointer, least, most).map_err(naming)
            }
        }
    }

    /// An address that a helper reads safely. What it finds in the context is the context.
    fn address(&mut self, value: Value) -> Result<(), Refusal> {
        let is_context = matches!(value, Value::Context | Value::ContextAt(_));
        if is_context && !self.kind.is_probe() {
            return unsupported("the context of this kind of program is no memory that a helper reads");
        }
        if is_context {
            self.context_reads = u32::MAX >> (32 - pt_regs::SLOTS);
        }
        self.needs_lane |= self.per_cpu_map(value).is_some();
        Ok(())
    }

    /// A constant place in a value of an array, from which a helper reads up to a NUL or the value's end.
    fn const_string(&mut self, value: Value, found: &mut Arguments) -> Result<(), Refusal> {
        self.check_rights(value, true, false)?;
        let (map, offset) = match value {
            Value::Element { map, offset } if self.maps[map as usize].kind == MapKind::Array => {
                (&self.maps[map as usize], offset.as_constant())
            }
            _ => {
                return refuse(format!(
                    "a constant string is needed, in the value of an array, not {}",
                    self.describe(value)
                ));
            }
        };
        match offset.and_then(|offset| u32::try_from(offset).ok()).filter(|offset| *offset < map.value_bytes)
        {
            Some(offset) => {
                found.string_bytes = Some(map.value_bytes - offset);
                Ok(())
            }
            None => refuse(format!("{}: a constant place in its value is needed", self.describe(value))),
        }
    }

    fn map_of(&self, found: &Arguments) -> Result<&'a MapSpec, Refusal> {
        match found.map {
            Some(index) => {
                let maps: &'a [MapSpec] = self.maps;
                Ok(&maps[index as usize])
            }
            None => refuse("the helper's table has this argument without a map"),
        }
    }

    /// The key in memory, if it is a constant that an array has an element for.
    fn constant_key(&self, path: &Path, pointer: Value, map: &MapSpec) -> Option<u32> {
        let Value::Stack(at) = pointer else { return None };
        if !map.kind.is_array() || at.off % 4 != 0 {
            return None;
        }
        let Ok(Value::Scalar(key)) = path.state.stack_load(at, 4) else { return None };
        key.as_constant().map(|key| key as u32).filter(|key| *key < map.max_entries)
    }

    fn result(&mut self, path: &mut Path, helper: &HelperProto, found: &Arguments) -> Value {
        match (helper.ret, found.map) {
            (Ret::MapValueOrNull, Some(map)) if self.maps[map as usize].kind.holds_maps() => {
                let like = self.maps[map as usize].inner.unwrap_or(map);
                Value::InnerMapOrNull { like, id: self.new_id() }
            }
            (Ret::MapValueOrNull, Some(map)) => match found.key {
                // Another CPU's may not be there, whatever the key.
                Some(_) if helper.id != helper::MAP_LOOKUP_PERCPU_ELEM => {
                    Value::Element { map, offset: Scalar::constant(0) }
                }
                _ => Value::ElementOrNull { map, id: self.new_id() },
            },
            (Ret::RingRecordOrNull, _) => {
                let id = self.new_id();
                path.state.records.push(id);
                Value::RecordOrNull { size: found.record_bytes.unwrap_or(0), id, dynptr: None }
            }
            (Ret::SliceOrNull, _) => {
                let size = found.record_bytes.unwrap_or(0);
                Value::RecordOrNull { size, id: self.new_id(), dynptr: found.dynptr }
            }
            (Ret::Scalar, _) => Value::Scalar(match helper.id {
                helper::GET_SMP_PROCESSOR_ID | helper::GET_NUMA_NODE_ID | helper::GET_PRANDOM_U32 => {
                    Scalar::UNKNOWN.low(32)
                }
                _ => Scalar::UNKNOWN,
            }),
            (Ret::Length, _) => Value::Scalar(Scalar::signed_range(-ERRNO_MAX, found.size_max)),
            (Ret::Status, _) => Value::Scalar(Scalar::UNKNOWN),
            (Ret::Void | Ret::MapValueOrNull, _) => Value::Uninit,
        }
    }

    /// A kernel function: about the session that a probe is of, without arguments, or about what its context leads to.
    pub(crate) fn call_kernel(&mut self, path: &mut Path, id: KfuncId) -> Result<(), Refusal> {
        let name = kfunc::name(id).unwrap_or_default();
        if !self.kind.is_probe() {
            return unsupported(format!(
                "{name} is for probes, not for programs of kind {}",
                self.kind.name()
            ));
        }
        if path.state.depth() > 0 {
            return unsupported(format!("{name} in a function of the program, which does not see its frame"));
        }
        if id == kfunc::TEXT_BEGINS {
            self.text_test(path)?;
        } else if id == kfunc::DECLARED_COPY {
            self.declared_copy(path)?;
        }
        clobber(path);
        let result = match id {
            kfunc::SESSION_COOKIE => {
                Value::Memory { size: kfunc::SESSION_COOKIE_BYTES, offset: Scalar::constant(0) }
            }
            kfunc::DECLARED_COPY => Value::Scalar(Scalar::UNKNOWN),
            _ => Value::Scalar(Scalar::range(0, 1)),
        };
        write(path, 0, result);
        Ok(())
    }

    /// What is asked of a text is the same on every path, so that an engine knows it; the slot holds a text.
    fn text_test(&mut self, path: &Path) -> Result<(), Refusal> {
        let context = self.value(path, 1)?;
        if context != Value::Context {
            return refuse(format!("the context is needed, not {}", self.describe(context)));
        }
        let which = self.constant(path, 2)?;
        let bytes = which >> 8;
        if !(1..=TEXT_BYTES_MAX as u64).contains(&bytes) {
            return refuse(format!("it compares with {bytes} bytes; the limits are 1 and {TEXT_BYTES_MAX}"));
        }
        let mut words = [0; 3];
        // Those beyond the bytes need not be there.
        for (word, register) in words.iter_mut().zip(3..).take(bytes.div_ceil(8) as usize) {
            *word = self.constant(path, register)?;
        }
        let Some(test) = TextTest::of(which, words) else {
            return refuse("it compares with a NUL that is not the last byte");
        };
        let is_text = self.limits.text_slots.checked_shr(test.slot.into()).unwrap_or(0) & 1 != 0;
        if !is_text || u32::from(test.slot) >= pt_regs::SLOTS {
            return refuse(format!("slot {} of the context holds no text", test.slot));
        }
        self.context_reads |= 1 << test.slot;
        if self.seen[path.at].text.visit(test) {
            Ok(())
        } else {
            unsupported("what is asked of the text differs from path to path")
        }
    }

    /// What is copied is the same on every path and is declared; there is room for it.
    fn declared_copy(&mut self, path: &mut Path) -> Result<(), Refusal> {
        let context = self.value(path, 3)?;
        if context != Value::Context {
            return refuse(format!("the context is needed in r3, not {}", self.describe(context)));
        }
        let (size, which) = (self.constant(path, 2)?, self.constant(path, 4)?);
        let Some(copy) = DeclaredCopy::of(size, which) else {
            return refuse(format!("r4 is {which:#x} and there is room for {size} bytes: that is no copy"));
        };
        if !self.limits.declares(copy.declared) || copy.declared.slots() >> pt_regs::SLOTS != 0 {
            return refuse(format!("the context does not declare {}", copy.declared));
        }
        let (to, (least, most)) = (self.value(path, 1)?, copy.written());
        self.helper_writes(path, to, least.into(), most.into()).map_err(|refusal| Refusal {
            message: format!("for the memory in r1, {}", refusal.message),
            ..refusal
        })?;
        self.context_reads |= copy.declared.slots();
        if self.seen[path.at].copy.visit(copy) {
            Ok(())
        } else {
            unsupported("what is copied differs from path to path")
        }
    }

    fn constant(&mut self, path: &Path, register: u8) -> Result<u64, Refusal> {
        let number = self.number(path, register)?;
        let constant = number.as_constant();
        constant.map_or_else(|| refuse(format!("r{register} is {number}; a constant is needed")), Ok)
    }

    /// The program may end here: another takes its place, with its context and nothing else.
    fn check_tail_call(&mut self, path: &Path, found: &Arguments) -> Result<(), Refusal> {
        if !path.state.records.is_empty() {
            return refuse(
                "a ring record is neither submitted nor discarded before another program takes over",
            );
        }
        if path.state.depth() > 0 {
            return unsupported(
                "tail calls from a function of the program: another program finds its context only from the outermost \
                 frame",
            );
        }
        let is_one_map = found.map.is_none_or(|map| self.seen[path.at].map_index.visit(map));
        if is_one_map { Ok(()) } else { unsupported("the map of programs differs from path to path") }
    }

    pub(crate) fn note(&mut self, at: usize, helper: &HelperProto, found: &Arguments) {
        let is_per_cpu = found.map.is_some_and(|map| self.maps[map as usize].kind.is_per_cpu());
        // A new element's value counts the same in whatever lane it stands; that of an old one does not.
        let sets_value = helper.id == helper::MAP_UPDATE_ELEM && found.flags != Some(NOEXIST);
        self.needs_lane |= is_per_cpu && (sets_value || helper.id == helper::MAP_LOOKUP_PERCPU_ELEM);
        let seen = &mut self.seen[at];
        match found.map {
            // Which one is known when the program runs.
            Some(_) if found.is_inner => seen.map_index = Same::Differs,
            Some(map) => _ = seen.map_index.visit(map),
            None => {}
        }
        if helper.id == helper::MAP_LOOKUP_ELEM {
            seen.constant_key.visit(found.key);
        }
        if let Some(bytes) = found.string_bytes {
            seen.string_bytes = Some(seen.string_bytes.map_or(bytes, |known| known.min(bytes)));
        }
        for register in context_registers(helper.id) {
            self.context_reads |= 1 << (register / 8);
        }
    }
}

/// Whose the helper is, if not for programs of this kind.
fn not_for(helper: &HelperProto, kind: ProgramKind) -> Option<&'static str> {
    if helper::OF_SK_BUFFS.contains(&helper.id) {
        return (!kind.is_sk_buff()).then_some("socket filters and classifiers");
    }
    if helper::OF_XDP.contains(&helper.id) {
        return (kind != ProgramKind::Xdp).then_some("XDP");
    }
    if helper.id == helper::REDIRECT_CLASSIFIED {
        return Some("engines alone");
    }
    if [helper::FIB_LOOKUP, helper::REDIRECT].contains(&helper.id) {
        let sends = matches!(kind, ProgramKind::Xdp | ProgramKind::Classifier);
        return (!sends).then_some("XDP and classifiers");
    }
    let is_of_probes = helper.args.contains(&Arg::Context) && helper.id != helper::TAIL_CALL;
    (is_of_probes && !kind.is_probe()).then_some("probes")
}

/// What a helper reads of the context that it is given.
fn context_registers(id: HelperId) -> &'static [u32] {
    match id {
        helper::GET_FUNC_IP => &[pt_regs::IP],
        helper::SKB_LOAD_BYTES => &[packet::DATA, packet::DATA_END],
        helper::SKB_LOAD_BYTES_RELATIVE => &[packet::LINK, packet::NETWORK, packet::DATA_END],
        helper::GET_STACK | helper::GET_STACKID => &[pt_regs::BP, pt_regs::IP, pt_regs::SP],
        _ => &[],
    }
}

/// Helpers that change which elements a map has, or their values.
const WRITERS: [HelperId; 4] =
    [helper::MAP_UPDATE_ELEM, helper::MAP_DELETE_ELEM, helper::MAP_PUSH_ELEM, helper::MAP_POP_ELEM];

/// Into a frame of its own. Local calls were counted before; callbacks show only now.
pub(crate) fn enter(path: &mut Path, arguments: [Value; 5]) -> Result<(), Refusal> {
    if path.state.depth() + 1 == CALL_DEPTH_MAX {
        return refuse(format!("calls and callbacks nest deeper than {CALL_DEPTH_MAX} here"));
    }
    path.state.enter(path.at, arguments);
    // Nothing that an earlier call left in this frame is read.
    path.written.add(path.state.depth(), WHOLE_FRAME);
    Ok(())
}

fn check_kind(helper: &HelperProto, arg: Arg, map: &MapSpec) -> Result<(), Refusal> {
    let wanted = match map.kind {
        MapKind::RingBuf => Arg::RingMap,
        MapKind::Queue | MapKind::Stack | MapKind::BloomFilter => Arg::QueueMap,
        MapKind::Hash
        | MapKind::Array
        | MapKind::PerCpuHash
        | MapKind::PerCpuArray
        | MapKind::LruHash
        | MapKind::LruPerCpuHash
        | MapKind::LpmTrie
        | MapKind::ArrayOfMaps
        | MapKind::HashOfMaps => Arg::Map,
        MapKind::PerfEventArray => Arg::PerfMap,
        MapKind::StackTrace => Arg::StackMap,
        MapKind::CgroupArray => Arg::CgroupMap,
        MapKind::ProgArray => Arg::ProgMap,
        // LIMIT: what programs add and find in maps of sockets is not there.
        MapKind::SockMap | MapKind::SockHash => {
            return unsupported(format!("{} with {}, a {}", helper.name, map.name, map.kind.name()));
        }
        MapKind::DevMap | MapKind::DevMapHash | MapKind::CpuMap | MapKind::XskMap => Arg::RedirectMap,
    };
    let finds_element = helper.id == helper::MAP_LOOKUP_ELEM
        && matches!(map.kind, MapKind::DevMap | MapKind::DevMapHash | MapKind::XskMap);
    let wanted = if finds_element { Arg::Map } else { wanted };
    if arg == Arg::Map && map.kind.holds_maps() && helper.id != helper::MAP_LOOKUP_ELEM {
        return refuse(format!("{} holds maps: programs only look them up", map.name));
    }
    let has_no_order = helper.id == helper::FOR_EACH_MAP_ELEM && !map.kind.is_hash() && !map.kind.is_array();
    let is_popped = helper.id == helper::MAP_POP_ELEM && map.kind == MapKind::BloomFilter;
    if arg != wanted || is_popped || has_no_order {
        return refuse(format!(
            "{} is a map of kind {}, which the helper does not take",
            map.name,
            map.kind.name()
        ));
    }
    if helper.id == helper::MAP_LOOKUP_PERCPU_ELEM && !map.kind.is_per_cpu() {
        return refuse(format!("{} has no value of each CPU: it is of kind {}", map.name, map.kind.name()));
    }
    if WRITERS.contains(&helper.id) && map.has(flag::RDONLY_PROG) {
        return refuse(format!(
            "{} is read-only (BPF_F_RDONLY_PROG); {} writes to it",
            map.name, helper.name
        ));
    }
    Ok(())
}
