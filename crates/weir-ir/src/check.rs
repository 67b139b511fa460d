//! Checks the invariants of a module; says all that is wrong, not only the first fault.
//!
//! Schema:
//! - map names are `@` and a name, each used once; types and buckets are within [`limits`]; no map holds tuples
//! - fields of an action lie one after the other from the header on; actions name maps that exist and have keys
//!   where they ask for one
//! - events can be recorded, and their fields have slots one after the other
//!
//! Each function:
//! - there is an entry block, without parameters; jumps go to a block that takes those arguments, forward or back to a block that every
//!   path to them passes; on every path from there back it is asked whether the run may go round again
//! - a value is defined once, has a type that is no tuple, and its definition comes before its uses on every path
//! - operands, keys, fields and results have the types that the operation and the schema ask for; a result is
//!   there exactly where the table in [`Inst`] says
//! - probed sites have a name in the schema; only sessions use the session's words, only
//!   filters read slots and accept
//!
//! Not checked: whether anything is reachable, and whether a program of it would fit a limit of eBPF.

use weir_event::ctype::CTypes;
use weir_event::{
    Action, Field, HIST_BITS_MAX, MapSchema, MapValue, RECORD_HEADER_BYTES, STACK_FRAMES_MAX, Type, recorded,
    schema,
};

use crate::dominators::Dominators;
use crate::{
    Block, BlockId, Builtin, Function, Inst, MapId, Module, Op, Trigger, Value, fits, leaves, limits,
};

/// Every fault found, each naming the map, action, or function and block it is in.
pub fn check(module: &Module) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    check_schema(module, &mut faults);
    for function in &module.functions {
        FunctionCheck::new(module, function, &mut faults).run();
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn check_schema(module: &Module, faults: &mut Vec<String>) {
    let schema = &module.schema;
    if module.max_map_keys == 0 || module.max_map_keys > limits::MAP_KEYS_MAX {
        faults.push(format!("max_map_keys is {}, not 1 to {}", module.max_map_keys, limits::MAP_KEYS_MAX));
    }
    if module.max_loop_iterations > limits::LOOP_ITERATIONS_MAX {
        let (have, most) = (module.max_loop_iterations, limits::LOOP_ITERATIONS_MAX);
        faults.push(format!("max_loop_iterations is {have}, not 0 to {most}"));
    }
    for (index, map) in schema.maps.iter().enumerate() {
        if let Err(fault) = check_map(map) {
            faults.push(format!("map {}: {fault}", map.name));
        }
        if schema.maps[..index].iter().any(|other| other.name == map.name) {
            faults.push(format!("map {}: named twice", map.name));
        }
    }
    for (index, action) in schema.actions.iter().enumerate() {
        if let Err(fault) = check_action(action, &schema.maps) {
            faults.push(format!("action {index}: {fault}"));
        }
    }
    for (index, event) in schema.events.iter().enumerate() {
        if let Err(fault) = check_event(event) {
            faults.push(format!("event {index}: {fault}"));
        }
    }
}

fn check_map(map: &MapSchema) -> Result<(), String> {
    if let Some(room) = map.room {
        if room.entries == 0 || room.entries > limits::MAP_KEYS_MAX {
            return Err(format!("{} entries, not 1 to {}", room.entries, limits::MAP_KEYS_MAX));
        }
        if map.key.is_none() {
            return Err("room for entries, but no keys".into());
        }
    }
    if !is_map_name(&map.name) {
        return Err("its name is not `@` and letters, digits or `_`".into());
    }
    if let Some(key) = &map.key {
        check_type(key)?;
    }
    match &map.value {
        MapValue::Plain(ty) => check_type(ty),
        MapValue::Lhist { min, max, step } => check_lhist(*min, *max, *step),
        MapValue::Hist { bits } if *bits > HIST_BITS_MAX => Err(format!("{bits} bits of a histogram")),
        MapValue::Tseries { interval_ns, intervals, .. }
            if *interval_ns == 0 || !(1..=limits::INTERVALS_MAX).contains(intervals) =>
        {
            Err(format!("a series of {intervals} intervals of {interval_ns} ns"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn is_map_name(name: &str) -> bool {
    name.strip_prefix('@').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Bounds of a histogram: also what keeps `MapValue::words` from dividing by zero.
pub(crate) fn check_lhist(min: i64, max: i64, step: i64) -> Result<(), String> {
    if step <= 0 || min >= max {
        return Err(format!("lhist({min}, {max}, {step}) has no buckets"));
    }
    let buckets = weir_event::lhist_buckets(min, max, step);
    if buckets > limits::LHIST_BUCKETS_MAX {
        return Err(format!(
            "lhist({min}, {max}, {step}) has {buckets} buckets, more than {}",
            limits::LHIST_BUCKETS_MAX
        ));
    }
    Ok(())
}

/// A type within the limits; sums cannot overflow after this.
pub(crate) fn check_type(ty: &Type) -> Result<(), String> {
    fn bytes(ty: &Type, depth: usize) -> Result<u64, String> {
        match ty {
            Type::Ustack(form) if form.frames == 0 || form.frames > STACK_FRAMES_MAX => {
                Err(format!("a stack of {} frames, not 1 to {STACK_FRAMES_MAX}", form.frames))
            }
            Type::Int { .. }
            | Type::Double
            | Type::Probe
            | Type::Func
            | Type::Usym
            | Type::Ustack(_)
            | Type::Pointer(_)
            | Type::Word(_)
            | Type::Inet => Ok(ty.bytes().into()),
            Type::Str { bytes } if *bytes == 0 || bytes % 8 != 0 || *bytes > limits::STRING_BYTES_MAX => Err(
                format!("a string of {bytes} bytes, not a multiple of 8 up to {}", limits::STRING_BYTES_MAX),
            ),
            Type::Str { bytes } => Ok(u64::from(*bytes)),
            Type::Object { bytes, .. } | Type::Buffer { bytes }
                if *bytes == 0 || bytes % 8 != 0 || *bytes > limits::STRING_BYTES_MAX =>
            {
                Err(format!(
                    "an object of {bytes} bytes, not a multiple of 8 up to {}",
                    limits::STRING_BYTES_MAX
                ))
            }
            Type::Object { bytes, .. } | Type::Buffer { bytes } => Ok(u64::from(*bytes)),
            Type::Tuple(_) | Type::Record(_) if depth == limits::TUPLE_DEPTH_MAX => {
                Err(format!("tuples more than {} deep", limits::TUPLE_DEPTH_MAX))
            }
            Type::Tuple(parts) if parts.is_empty() => Err("an empty tuple".into()),
            Type::Tuple(parts) => parts.iter().map(|part| bytes(part, depth + 1)).sum(),
            Type::Record(parts) if parts.is_empty() => Err("an empty record".into()),
            Type::Record(parts) => parts.iter().map(|(_, part)| bytes(part, depth + 1)).sum(),
        }
    }
    let total = bytes(ty, 0)?;
    if total > u64::from(limits::TYPE_BYTES_MAX) {
        return Err(format!("a type of {total} bytes, more than {}", limits::TYPE_BYTES_MAX));
    }
    Ok(())
}

fn check_action(action: &Action, maps: &[MapSchema]) -> Result<(), String> {
    let map = |index: usize| maps.get(index).ok_or_else(|| format!("no map {index}"));
    match action {
        Action::PrintMap { map: index, .. }
        | Action::ClearMap { map: index }
        | Action::ZeroMap { map: index } => {
            map(*index)?;
        }
        Action::PrintMapKey { map: index, key } => {
            if map(*index)?.key.as_ref() != Some(&key.ty) {
                return Err(format!("the key is not of {}'s key type", maps[*index].name));
            }
        }
        Action::Exit { code: Some(code) } if !matches!(code.ty, Type::Int { .. }) => {
            return Err("the exit code is not an integer".into());
        }
        Action::Printf { .. }
        | Action::PrintValue { .. }
        | Action::Join { .. }
        | Action::Time { .. }
        | Action::LoopEnded { .. }
        | Action::Exit { .. } => {}
    }
    // In any order, without holes.
    let mut fields = action_fields(action);
    fields.sort_by_key(|field| field.offset);
    let mut offset = u64::from(RECORD_HEADER_BYTES);
    for field in fields {
        check_type(&field.ty)?;
        if u64::from(field.offset) != offset {
            return Err(format!("a field at {}, not at {offset}", field.offset));
        }
        offset += u64::from(field.ty.bytes());
        if offset > u64::from(limits::TYPE_BYTES_MAX) {
            return Err(format!("a record of more than {} bytes", limits::TYPE_BYTES_MAX));
        }
    }
    Ok(())
}

fn check_event(event: &schema::Schema) -> Result<(), String> {
    if let Some(refusal) = recorded::refusal(event) {
        return Err(refusal);
    }
    let mut slot = 0;
    for field in &event.fields {
        if field.slot != slot {
            return Err(format!("field `{}` is in slot {}, not in {slot}", field.name, field.slot));
        }
        slot = slot.checked_add(recorded::slots(&field.ty)).ok_or("it has too many fields")?;
    }
    Ok(())
}

/// The fields of an action's record, in order.
pub fn action_fields(action: &Action) -> Vec<&Field> {
    match action {
        Action::Printf { args, .. } => args.iter().collect(),
        Action::PrintValue { value } => vec![value],
        Action::Join { strings, .. } => vec![strings],
        Action::PrintMapKey { key, .. } => vec![key],
        Action::Exit { code } => code.iter().collect(),
        Action::PrintMap { .. }
        | Action::ClearMap { .. }
        | Action::ZeroMap { .. }
        | Action::Time { .. }
        | Action::LoopEnded { .. } => Vec::new(),
    }
}

struct FunctionCheck<'a> {
    module: &'a Module,
    function: &'a Function,
    faults: &'a mut Vec<String>,
    dominators: Dominators,
    /// By value: the block and the place in it (0 for parameters, then 1 + index) where it is defined.
    defined: Vec<Option<(u32, usize)>>,
    block: u32,
}

impl<'a> FunctionCheck<'a> {
    fn new(module: &'a Module, function: &'a Function, faults: &'a mut Vec<String>) -> FunctionCheck<'a> {
        let defined = vec![None; function.types.len()];
        let dominators = Dominators::of(function);
        FunctionCheck { module, function, faults, dominators, defined, block: 0 }
    }

    fn run(mut self) {
        let function = self.function;
        if function.blocks.first().is_none_or(|entry| !entry.params.is_empty()) {
            return self.fault("there is no entry block without parameters");
        }
        if function.blocks.len() > limits::BLOCKS_MAX || function.types.len() > limits::VALUES_MAX {
            return self.fault("too many blocks or values");
        }
        for (index, ty) in function.types.iter().enumerate() {
            if matches!(
                ty,
                Type::Tuple(_)
                    | Type::Record(_)
                    | Type::Pointer(_)
                    | Type::Word(_)
                    | Type::Inet
                    | Type::Buffer { .. }
            ) {
                self.fault(format!("v{index} is a tuple, a pointer, a word, an address or a buffer"));
            } else if let Err(fault) = check_type(ty) {
                self.fault(format!("v{index}: {fault}"));
            }
        }
        for cookie in function.trigger.cookies() {
            if cookie >= self.module.schema.sites.len() as u64 {
                self.fault(format!("site {cookie} has no name in the schema"));
            }
        }
        for index in 0..function.blocks.len() {
            self.define_all(index);
        }
        for (index, block) in function.blocks.iter().enumerate() {
            self.block = index as u32;
            self.check_block(block);
        }
    }

    fn define_all(&mut self, index: usize) {
        self.block = index as u32;
        let block = &self.function.blocks[index];
        for &param in &block.params {
            self.define(param, 0);
        }
        for (at, inst) in block.insts.iter().enumerate() {
            if let Some(result) = inst.result {
                self.define(result, at + 1);
            }
        }
    }

    fn define(&mut self, value: Value, at: usize) {
        match self.defined.get_mut(value.0 as usize) {
            None => self.fault(format!("v{} has no type", value.0)),
            Some(Some(_)) => self.fault(format!("v{} is defined twice", value.0)),
            Some(place) => *place = Some((self.block, at)),
        }
    }

    fn check_block(&mut self, block: &Block) {
        for (at, inst) in block.insts.iter().enumerate() {
            let known = self.check_uses(inst.op.operands(), at + 1);
            if known && let Err(fault) = self.check_inst(inst) {
                self.fault(fault);
            }
        }
        let end = block.insts.len() + 1;
        let known = self.check_uses(block.end.operands(), end);
        if known && let Err(fault) = self.check_end(block) {
            self.fault(fault);
        }
    }

    /// Looks at every one, so that all faults are reported.
    fn check_uses(&mut self, values: impl Iterator<Item = Value>, at: usize) -> bool {
        let mut known = true;
        for value in values {
            known &= self.check_use(value, at);
        }
        known
    }

    /// Reports a use that its definition does not reach; true if the value at least has a type.
    fn check_use(&mut self, value: Value, at: usize) -> bool {
        let here = BlockId(self.block);
        let reached = match self.defined.get(value.0 as usize) {
            None => {
                self.fault(format!("v{} has no type", value.0));
                return false;
            }
            Some(None) => false,
            Some(Some((block, place))) if *block == self.block => *place < at,
            // In code that no path reaches, every definition comes before every use.
            Some(Some(_)) if !self.dominators.is_reachable(here) => true,
            Some(Some((block, _))) => self.dominators.dominates(BlockId(*block), here),
        };
        if !reached {
            self.fault(format!("v{} is used where it is not defined on every path", value.0));
        }
        true
    }

    fn check_end(&self, block: &Block) -> Result<(), String> {
        match &block.end {
            crate::Terminator::Branch { condition, .. } => self.want_int(*condition)?,
            crate::Terminator::Accept => self.want_filter()?,
            crate::Terminator::Jump { .. } | crate::Terminator::Return => {}
        }
        for (to, args) in block.end.successors() {
            let target = self
                .function
                .blocks
                .get(to.0 as usize)
                .ok_or_else(|| format!("a jump to no block b{}", to.0))?;
            if to.0 <= self.block {
                self.check_jump_back(to)?;
            }
            if target.params.len() != args.len() {
                return Err(format!("b{} takes {} values, not {}", to.0, target.params.len(), args.len()));
            }
            for (&param, &arg) in target.params.iter().zip(args) {
                if let Some(want) = self.function.types.get(param.0 as usize) {
                    self.want(arg, want)?;
                }
            }
        }
        Ok(())
    }

    /// A jump back to `to`.
    fn check_jump_back(&self, to: BlockId) -> Result<(), String> {
        let here = BlockId(self.block);
        if to.0 == 0 || self.dominators.is_reachable(here) && !self.dominators.dominates(to, here) {
            return Err(format!("a jump back to b{}, which is not on every path here", to.0));
        }
        let passed = std::iter::successors(Some(here), |&block| {
            self.dominators.immediate(block).filter(|_| block != to)
        });
        let asks = |block: BlockId| {
            let insts = self.function.blocks.get(block.0 as usize).map_or(&[][..], |block| &block.insts);
            insts.iter().any(|inst| inst.op == Op::MayLoop)
        };
        match { passed }.any(asks) || !self.dominators.is_reachable(here) {
            true => Ok(()),
            false => Err(format!("a loop from b{} on that does not ask whether it may go round again", to.0)),
        }
    }

    fn check_inst(&self, inst: &Inst) -> Result<(), String> {
        if inst.result.is_some() != inst.op.has_result() {
            return Err(format!(
                "a result is {} here: {:?}",
                if inst.result.is_some() { "wrong" } else { "missing" },
                inst.op
            ));
        }
        let result = inst.result.and_then(|value| self.function.types.get(value.0 as usize));
        self.check_op(&inst.op, result).map_err(|fault| match inst.result {
            Some(result) => format!("v{}: {fault}", result.0),
            None => fault,
        })
    }

    fn check_op(&self, op: &Op, result: Option<&Type>) -> Result<(), String> {
        match op {
            // Of type probe or func it is a cookie, of type double its bits.
            Op::Int(_) if matches!(result, Some(Type::Probe | Type::Func | Type::Double)) => Ok(()),
            // No stack.
            Op::Int(0) if matches!(result, Some(Type::Ustack(_))) => Ok(()),
            Op::KernelSymbol { .. } | Op::KernelStack(_) if self.want_kernel().is_err() => self.want_kernel(),
            Op::UserSymbol { address } | Op::KernelSymbol { address } => {
                self.want_int(*address)?;
                if result == Some(&Type::Usym) { Ok(()) } else { Err("a symbol of the wrong type".into()) }
            }
            Op::StackLength(most) => {
                self.want_probe()?;
                match most {
                    1..=STACK_FRAMES_MAX => result_is_int(result),
                    _ => Err(format!("a stack of {most} frames")),
                }
            }
            Op::UserStack(form) | Op::KernelStack(form) => {
                self.want_probe()?;
                if result == Some(&Type::Ustack(*form)) {
                    Ok(())
                } else {
                    Err("a stack of the wrong type".into())
                }
            }
            Op::CallProgram => {
                if !self.function.trigger.is_probe() {
                    return Err("there is no event in weir itself".into());
                }
                result_is_int(result)
            }
            Op::MayLoop => result_is_int(result),
            Op::Int(_) => result_is_int(result),
            Op::Str(text) => match result {
                Some(Type::Str { bytes }) if text.len() > *bytes as usize => {
                    Err(format!("{} bytes of text in a string of {bytes}", text.len()))
                }
                Some(Type::Str { .. }) if text.contains('\0') => Err("text with a NUL in it".into()),
                Some(Type::Str { .. }) => Ok(()),
                Some(Type::Object { .. }) if text.is_empty() => Ok(()),
                _ => Err("text that is no string".into()),
            },
            Op::Builtin(Builtin::IsReturn | Builtin::SessionCookie) => {
                self.want_session()?;
                result_is_int(result)
            }
            Op::Builtin(Builtin::Slot(n)) => {
                let slots = self.slots()?;
                if *n >= slots
                    && !(matches!(self.function.trigger, Trigger::Usdt { .. }) && limits::is_row_word(*n))
                {
                    return Err(format!("slot {n}, but there are {slots}"));
                }
                result_is_int(result)
            }
            Op::Builtin(Builtin::Field { offset, bytes }) => {
                self.want_kernel()?;
                if !matches!(bytes, 1 | 2 | 4 | 8) || !offset.is_multiple_of((*bytes).into()) {
                    return Err(format!("no field of {bytes} bytes at {offset}"));
                }
                result_is_int(result)
            }
            Op::Builtin(Builtin::Context | Builtin::Task) => {
                self.want_kernel()?;
                result_is_int(result)
            }
            Op::SetSessionCookie { value } => {
                self.want_session()?;
                self.want_int(*value)
            }
            Op::Signal { number, .. } => {
                if !self.function.trigger.is_probe() {
                    return Err("no signal to weir itself".into());
                }
                self.want_int(*number)
            }
            Op::Builtin(builtin) => check_builtin(*builtin, result),
            Op::Bin(_, a, b) => {
                self.want_bits(*a)?;
                self.want_bits(*b)?;
                if result == Some(&Type::Double) { Ok(()) } else { result_is_int(result) }
            }
            Op::Cmp(_, a, b) => {
                let (ta, tb) = (self.function.ty(*a), self.function.ty(*b));
                if !matches!(ta, Type::Int { .. } | Type::Probe | Type::Func) || !fits(ta, tb) {
                    return Err(format!("v{} and v{} cannot be compared as numbers", a.0, b.0));
                }
                result_is_int(result)
            }
            Op::StrEq { first: Some(0), .. } => Err("a look at no byte".into()),
            Op::StrEq { a, b, first, .. } => {
                let are_buffers = match [a, b].map(|value| self.function.ty(*value)) {
                    [Type::Object { ty: CTypes::VOID, .. }, Type::Object { ty: CTypes::VOID, .. }] => true,
                    [Type::Object { bytes: a, .. }, Type::Object { bytes: b, .. }] => a == b,
                    _ => false,
                };
                if !are_buffers || first.is_some() {
                    self.want_str(*a)?;
                    self.want_str(*b)?;
                }
                result_is_int(result)
            }
            Op::ReadStr { address, limit } => {
                self.want_int(*address)?;
                limit.iter().try_for_each(|limit| self.want_int(*limit))?;
                match result {
                    Some(Type::Str { .. }) => Ok(()),
                    _ => Err("a string is read into no string".into()),
                }
            }
            Op::TextBegins { slot, text, ends } => {
                if !self.function.trigger.is_probe() {
                    return Err("weir itself has no slots".into());
                }
                let bytes = text.len() + usize::from(*ends);
                if *slot >= limits::SLOTS {
                    return Err(format!("slot {slot}, but an event has {}", limits::SLOTS));
                }
                if !(1..=limits::TEXT_BYTES_MAX).contains(&bytes) || text.contains('\0') {
                    let most = limits::TEXT_BYTES_MAX;
                    return Err(format!("{bytes} bytes to begin with, or one of them a NUL; 1 to {most}"));
                }
                result_is_int(result)
            }
            Op::ReadBytes { address, bytes, limit } => {
                self.want_int(*address)?;
                limit.iter().try_for_each(|limit| self.want_int(*limit))?;
                match result {
                    Some(Type::Object { bytes: place, .. }) if *bytes > 0 && bytes <= place => Ok(()),
                    _ => Err(format!("{bytes} bytes are read into no object of so many")),
                }
            }
            Op::Part { of, offset, bytes } => {
                let (all, is_text) = match self.function.ty(*of) {
                    Type::Object { bytes, .. } => (*bytes, false),
                    Type::Str { bytes } => (*bytes, true),
                    _ => return Err("only objects and strings have parts".into()),
                };
                let is_inside = offset.checked_add(*bytes).is_some_and(|end| end <= all);
                match result {
                    _ if is_text && *bytes != 1 => Err("a string has characters alone".into()),
                    Some(Type::Int { .. }) if is_inside && matches!(bytes, 1 | 2 | 4 | 8) => Ok(()),
                    Some(Type::Double | Type::Probe | Type::Func | Type::Ustack(_))
                        if is_inside && *bytes == 8 =>
                    {
                        Ok(())
                    }
                    Some(Type::Usym) if is_inside && *bytes == 16 => Ok(()),
                    Some(Type::Str { bytes: place } | Type::Object { bytes: place, .. })
                        if is_inside && *bytes > 0 && bytes <= place =>
                    {
                        Ok(())
                    }
                    _ => Err(format!("no part of {bytes} bytes at {offset}")),
                }
            }
            Op::StrLen(text) => match self.function.ty(*text) {
                Type::Str { .. } => result_is_int(result),
                _ => Err("only strings have a length".into()),
            },
            Op::StrFind { text, part } => {
                self.want_str(*text)?;
                self.want_str(*part)?;
                result_is_int(result)
            }
            Op::StrCat { a, b } => {
                self.want_str(*a)?;
                self.want_str(*b)?;
                match result {
                    Some(Type::Str { .. }) => Ok(()),
                    _ => Err("two strings are put together to no string".into()),
                }
            }
            Op::MemCmp { a, b, bytes } => {
                for value in [a, b] {
                    if !matches!(self.function.ty(*value), Type::Str { .. } | Type::Object { .. }) {
                        return Err(format!("v{} has no bytes to compare", value.0));
                    }
                }
                if !(1..=limits::STRING_BYTES_MAX).contains(bytes) {
                    let most = limits::STRING_BYTES_MAX;
                    return Err(format!("{bytes} bytes are compared, not 1 to {most}"));
                }
                result_is_int(result)
            }
            Op::ReadStrings { address, most, each } => {
                self.want_int(*address)?;
                let is_bounded = (1..=limits::STRINGS_MAX).contains(most)
                    && (1..=limits::STRING_BYTES_MAX / 2).contains(each);
                match result {
                    Some(Type::Object { bytes, .. })
                        if is_bounded && (16..=limits::STRING_BYTES_MAX / 2).contains(bytes) =>
                    {
                        Ok(())
                    }
                    _ => Err(format!("{most} strings of {each} bytes are too many, or read into no object")),
                }
            }
            Op::Join(parts) => {
                let mut total = 0u32;
                for (value, bytes) in parts {
                    let have = self.function.ty(*value).bytes();
                    if have > *bytes || bytes % 8 != 0 {
                        return Err(format!("{have} bytes in a part of {bytes}"));
                    }
                    total = total.saturating_add(*bytes);
                }
                match result {
                    Some(Type::Object { bytes, .. }) if *bytes == total => Ok(()),
                    _ => Err(format!("parts of {total} bytes are no object of so many")),
                }
            }
            Op::ReadInt { address, bytes } => {
                self.want_int(*address)?;
                match bytes {
                    1 | 2 | 4 | 8 => result_is_int(result),
                    _ => Err(format!("an integer of {bytes} bytes")),
                }
            }
            Op::Match { text, bytes_max, automaton } => {
                if !matches!(self.function.ty(*text), Type::Str { .. }) {
                    self.want_int(*text)?;
                }
                if !(1..=limits::MATCH_BYTES_MAX).contains(bytes_max) {
                    return Err(format!("a look at {bytes_max} bytes, not 1 to {}", limits::MATCH_BYTES_MAX));
                }
                automaton.check()?;
                result_is_int(result)
            }
            Op::MapGet { map, key } => self.check_map_get(*map, key, result),
            Op::MapNext { map, cursor } => {
                self.want_int(*cursor)?;
                let schema = self.module.schema.maps.get(map.0 as usize);
                let schema = schema.ok_or_else(|| format!("map {} is not there", map.0))?;
                let Some(key) = &schema.key else { return Err(format!("{} has no keys", schema.name)) };
                match result {
                    Some(Type::Object { bytes, .. }) if *bytes == 8 + key.bytes() => Ok(()),
                    _ => {
                        Err(format!("a key of {} bytes and its cursor are no object of so many", key.bytes()))
                    }
                }
            }
            Op::MapHas { map, key } => {
                self.check_key(*map, key)?;
                result_is_int(result)
            }
            Op::MapSet { map, key, value } => {
                let schema = self.check_key(*map, key)?;
                match &schema.value {
                    MapValue::Plain(ty) => self.want(*value, ty),
                    _ => Err(format!("{} is set, but aggregates", schema.name)),
                }
            }
            Op::MapAdd { map, key, delta } => {
                let schema = self.check_key(*map, key)?;
                self.want_int(*delta)?;
                match &schema.value {
                    MapValue::Plain(Type::Int { .. }) => result_is_int(result),
                    _ => Err(format!("{} is added to, but holds no plain integers", schema.name)),
                }
            }
            Op::MapDelete { map, key } => self.check_key(*map, key).map(|_| ()),
            Op::Aggregate { map, key, value } => {
                let schema = self.check_key(*map, key)?;
                match (&schema.value, value) {
                    (MapValue::Plain(_), _) => Err(format!("{} aggregates nothing", schema.name)),
                    (MapValue::Count, None) => Ok(()),
                    (MapValue::Count, Some(_)) => Err(format!("{} counts and takes no value", schema.name)),
                    (_, Some(value)) => self.want_int(*value),
                    (_, None) => Err(format!("{} needs a value", schema.name)),
                }
            }
            Op::Emit { action, args } => {
                let action = self
                    .module
                    .schema
                    .actions
                    .get(action.0 as usize)
                    .ok_or_else(|| format!("no action {}", action.0))?;
                let wanted: Vec<&Type> =
                    action_fields(action).into_iter().flat_map(|field| leaves(&field.ty)).collect();
                self.want_all(&wanted, args)
            }
            Op::Record { event, args, marked } => {
                marked.iter().try_for_each(|marked| self.want_int(*marked))?;
                if !self.function.trigger.is_probe() {
                    return Err("there is no event in weir itself".into());
                }
                let events = &self.module.schema.events;
                let event = events.get(event.0 as usize).ok_or_else(|| format!("no event {}", event.0))?;
                let slots: usize =
                    event.fields.iter().map(|field| usize::from(recorded::slots(&field.ty))).sum();
                if slots != args.len() {
                    return Err(format!("{} values where {slots} are wanted", args.len()));
                }
                for field in event.fields.iter().filter(|field| recorded::slots(&field.ty) > 0) {
                    let value = args[usize::from(field.slot)];
                    match self.function.ty(value) {
                        Type::Str { bytes } if is_name(&field.ty, *bytes) => {}
                        Type::Double => {}
                        _ => self.want_int(value)?,
                    }
                }
                Ok(())
            }
        }
    }

    fn check_map_get(&self, map: MapId, key: &[Value], result: Option<&Type>) -> Result<(), String> {
        let schema = self.check_key(map, key)?;
        match &schema.value {
            MapValue::Plain(ty) => match result {
                Some(Type::Int { .. }) if matches!(ty, Type::Pointer(_) | Type::Word(_)) => Ok(()),
                Some(Type::Object { bytes, .. })
                    if matches!(ty, Type::Tuple(_) | Type::Record(_) | Type::Inet | Type::Buffer { .. })
                        && ty.bytes() == *bytes =>
                {
                    Ok(())
                }
                Some(have) if fits(ty, have) && fits(have, ty) => Ok(()),
                _ => Err(format!("the result is not of {}'s value type", schema.name)),
            },
            MapValue::Stats { .. }
            | MapValue::Hist { .. }
            | MapValue::Lhist { .. }
            | MapValue::Tseries { .. } => Err(format!("{} has no single number", schema.name)),
            _ => result_is_int(result),
        }
    }

    fn check_key(&self, map: MapId, key: &[Value]) -> Result<&'a MapSchema, String> {
        let module = self.module;
        let schema = module.schema.maps.get(map.0 as usize).ok_or_else(|| format!("no map {}", map.0))?;
        let wanted: Vec<&Type> = schema.key.iter().flat_map(leaves).collect();
        self.want_all(&wanted, key).map_err(|fault| format!("the key of {}: {fault}", schema.name))?;
        Ok(schema)
    }

    fn want_all(&self, wanted: &[&Type], values: &[Value]) -> Result<(), String> {
        if wanted.len() != values.len() {
            return Err(format!("{} values where {} are wanted", values.len(), wanted.len()));
        }
        wanted.iter().zip(values).try_for_each(|(want, &value)| self.want(value, want))
    }

    fn want(&self, value: Value, want: &Type) -> Result<(), String> {
        let have = self.function.ty(value);
        if fits(want, have) { Ok(()) } else { Err(format!("v{} is {have:?}, not {want:?}", value.0)) }
    }

    fn want_int(&self, value: Value) -> Result<(), String> {
        self.want(value, &Type::I64)
    }

    fn want_bits(&self, value: Value) -> Result<(), String> {
        match self.function.ty(value) {
            Type::Double => Ok(()),
            _ => self.want_int(value),
        }
    }

    fn want_session(&self) -> Result<(), String> {
        match self.function.trigger.is_session() {
            true => Ok(()),
            false => Err("only a session has a cookie and a return".into()),
        }
    }

    fn want_probe(&self) -> Result<(), String> {
        match self.function.trigger.is_probe() {
            true => Ok(()),
            false => Err("there is no stack of the target in weir itself".into()),
        }
    }

    fn want_kernel(&self) -> Result<(), String> {
        match self.function.trigger {
            Trigger::Kernel { .. } => Ok(()),
            _ => Err("only programs at events of the kernel's are given that".into()),
        }
    }

    /// How many the context has: that of an event, or of a place of a static probe, which hands over words.
    fn slots(&self) -> Result<u8, String> {
        match self.function.trigger {
            Trigger::Usdt { .. } => Ok(limits::SLOTS + limits::FLOATS),
            _ => self.want_filter().map(|()| limits::SLOTS),
        }
    }

    fn want_filter(&self) -> Result<(), String> {
        match self.function.trigger {
            Trigger::Filter => Ok(()),
            _ => Err("only filters read slots and accept".into()),
        }
    }

    fn want_str(&self, value: Value) -> Result<(), String> {
        match self.function.ty(value) {
            Type::Str { .. } => Ok(()),
            have => Err(format!("v{} is {have:?}, not a string", value.0)),
        }
    }

    fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(format!("{} b{}: {}", self.function.name, self.block, what.into()));
    }
}

/// Whether the field is so many characters.
fn is_name(ty: &schema::Type, bytes: u32) -> bool {
    let schema::Type::Array { element, count } = ty else { return false };
    matches!(**element, schema::Type::Int { bytes: 1, .. }) && *count == bytes
}

fn check_builtin(builtin: Builtin, result: Option<&Type>) -> Result<(), String> {
    match (builtin, result) {
        (Builtin::Arg(n), _) if n >= limits::ARGUMENTS => {
            Err(format!("arg {n}, but only {} arguments are in registers", limits::ARGUMENTS))
        }
        (Builtin::Register(n), _) if n >= limits::REGISTERS => {
            Err(format!("register {n}, but there are {}", limits::REGISTERS))
        }
        (Builtin::Float(n), _) if n >= limits::FLOATS => {
            Err(format!("farg {n}, but only {} are in registers", limits::FLOATS))
        }
        (Builtin::Float(_), Some(Type::Double))
        | (Builtin::Comm, Some(Type::Str { bytes: 16 }))
        | (Builtin::Probe, Some(Type::Probe))
        | (Builtin::Func, Some(Type::Func)) => Ok(()),
        (Builtin::Float(_) | Builtin::Comm | Builtin::Probe | Builtin::Func, _) => {
            Err(format!("{builtin:?} of the wrong type"))
        }
        _ => result_is_int(result),
    }
}

fn result_is_int(result: Option<&Type>) -> Result<(), String> {
    match result {
        Some(Type::Int { .. }) => Ok(()),
        // A missing type is reported where the result is defined.
        None => Ok(()),
        Some(other) => Err(format!("the result is {other:?}, not an integer")),
    }
}

#[cfg(test)]
mod tests;
