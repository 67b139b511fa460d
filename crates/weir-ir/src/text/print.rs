//! Module → text. Total: a module that `check` would refuse prints as something, though it may not parse back.

use std::fmt::{Display, Formatter, Result as FmtResult, Write};

use weir_event::kernel::KernelEvent;
use weir_event::{Action, Field, MapSchema, MapValue, PrintTo, Schema, Type, Word, schema};

use crate::{
    Asked, Automaton, BinOp, Block, BlockId, Builtin, CmpOp, Function, KernelSite, MapId, MissingProbes,
    Module, Op, Terminator, Trigger, Value,
};

/// The text form of `module`; see the module's header.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    // SANITY: writing to a String cannot fail.
    write_module(&mut out, module).expect("a String takes all that is written");
    out
}

fn write_module(out: &mut String, module: &Module) -> FmtResult {
    let schema = &module.schema;
    writeln!(out, "max_map_keys {}", module.max_map_keys)?;
    if module.missing_probes != MissingProbes::Error {
        writeln!(out, "missing_probes {}", name_in(&MissingProbes::NAMES, &module.missing_probes))?;
    }
    if module.max_loop_iterations != 0 {
        writeln!(out, "max_loop_iterations {}", module.max_loop_iterations)?;
    }
    if schema.hides_maps {
        writeln!(out, "hides_maps")?;
    }
    if schema.shows_mangled {
        writeln!(out, "shows_mangled")?;
    }
    for map in &schema.maps {
        writeln!(out, "map {}", Shown(map))?;
    }
    for action in &schema.actions {
        out.write_str("action ")?;
        write_action(out, action, schema)?;
        out.write_char('\n')?;
    }
    for event in &schema.events {
        write_event(out, event)?;
    }
    for site in &schema.sites {
        writeln!(out, "site {} {}", Quoted(&site.probe), Quoted(&site.func))?;
    }
    module.functions.iter().try_for_each(|function| write_function(out, function, schema))
}

fn write_action(out: &mut String, action: &Action, schema: &Schema) -> FmtResult {
    let name = |map: usize| MapName(schema, map);
    match action {
        Action::Printf { to, format, args } => {
            match to {
                PrintTo::Output => out.write_str("printf")?,
                PrintTo::Error(place) => write!(out, "errorf {}", Quoted(place))?,
                PrintTo::Warning(place) => write!(out, "warnf {}", Quoted(place))?,
                PrintTo::File(most) => write!(out, "cat {most}")?,
                PrintTo::Command => out.write_str("system")?,
            }
            write!(out, " {} ({})", Quoted(format), List(args.iter().map(Shown)))
        }
        Action::PrintValue { value } => write!(out, "print_value {}", Shown(value)),
        Action::PrintMap { map, top, div } => write!(out, "print_map {} top {top} div {div}", name(*map)),
        Action::PrintMapKey { map, key } => write!(out, "print_map_key {} {}", name(*map), Shown(key)),
        Action::ClearMap { map } => write!(out, "clear_map {}", name(*map)),
        Action::ZeroMap { map } => write!(out, "zero_map {}", name(*map)),
        Action::Time { format } => write!(out, "time {}", Quoted(format)),
        Action::Join { separator, strings } => {
            write!(out, "join {} {}", Quoted(separator), Shown(strings))
        }
        Action::LoopEnded { clause, line } => write!(out, "loop_ended {} {line}", Quoted(clause)),
        Action::Exit { code: None } => write!(out, "exit"),
        Action::Exit { code: Some(code) } => write!(out, "exit {}", Shown(code)),
    }
}

fn write_event(out: &mut String, event: &schema::Schema) -> FmtResult {
    write!(out, "event {} {}", Quoted(&event.provider), Quoted(&event.event))?;
    if let Some(level) = event.level {
        write!(out, " level {}", level.number())?;
    }
    out.write_str(" (")?;
    for (index, field) in event.fields.iter().enumerate() {
        write!(out, "{}{} ", if index > 0 { ", " } else { "" }, Quoted(&field.name))?;
        write_event_type(out, &field.ty)?;
        match field.form {
            schema::Form::Decimal => {}
            schema::Form::Hexadecimal => out.write_str(" hex")?,
            schema::Form::Text => out.write_str(" characters")?,
            schema::Form::Network => out.write_str(" network")?,
            schema::Form::NetworkHexadecimal => out.write_str(" network_hex")?,
        }
        write!(out, " slot {}", field.slot)?;
    }
    out.write_str(")\n")
}

fn write_event_type(out: &mut String, ty: &schema::Type) -> FmtResult {
    let sign = |signed: bool| if signed { 'i' } else { 'u' };
    match ty {
        schema::Type::Int { bytes, signed } => write!(out, "{}{bytes}", sign(*signed)),
        schema::Type::Float { bytes } => write!(out, "f{bytes}"),
        schema::Type::Str => out.write_str("string"),
        schema::Type::Text => out.write_str("text"),
        schema::Type::Enum { bytes, signed, labels } => {
            write!(out, "enum {}{bytes} [", sign(*signed))?;
            for (index, (label, first, last)) in labels.iter().enumerate() {
                write!(out, "{}{} {first} {last}", if index > 0 { ", " } else { "" }, Quoted(label))?;
            }
            out.write_char(']')
        }
        schema::Type::Array { element, count } => {
            write!(out, "array {count} ")?;
            write_event_type(out, element)
        }
        schema::Type::Sequence { element } => {
            out.write_str("sequence ")?;
            write_event_type(out, element)
        }
        schema::Type::Stack { frames } => write!(out, "stack {frames}"),
        schema::Type::Struct { fields } => {
            out.write_str("struct [")?;
            for (index, (name, offset, ty)) in fields.iter().enumerate() {
                write!(out, "{}{} {offset} ", if index > 0 { ", " } else { "" }, Quoted(name))?;
                write_event_type(out, ty)?;
            }
            out.write_char(']')
        }
    }
}

fn write_function(out: &mut String, function: &Function, schema: &Schema) -> FmtResult {
    write!(out, "\nfn {} ", Quoted(&function.name))?;
    match &function.trigger {
        Trigger::Begin => out.write_str("begin")?,
        Trigger::End => out.write_str("end")?,
        Trigger::Interval { period_ns } => write!(out, "interval {period_ns}")?,
        Trigger::Asked { by } => {
            let name = Asked::NAMES.iter().find(|(asked, _)| asked == by);
            out.write_str(name.expect("each has a name").1)?;
        }
        Trigger::Uprobe { .. } => out.write_str("uprobe")?,
        Trigger::Uretprobe { .. } => out.write_str("uretprobe")?,
        Trigger::Session { .. } => out.write_str("session")?,
        Trigger::Usdt { .. } => out.write_str("usdt")?,
        Trigger::Kernel { .. } => out.write_str("kernel")?,
        Trigger::Filter => out.write_str("filter")?,
    }
    writeln!(out, " span {} {} {{", function.span.start, function.span.end)?;
    for site in function.trigger.sites() {
        write!(out, "  site {} {} {}", Quoted(&site.binary), Quoted(&site.function), site.cookie)?;
        if let Some(address) = site.address {
            write!(out, " at {address}")?;
        }
        if site.by_pattern {
            out.write_str(" by_pattern")?;
        }
        out.write_char('\n')?;
    }
    if let Trigger::Usdt { sites } = &function.trigger {
        for site in sites {
            let (binary, provider, name) = (Quoted(&site.binary), Quoted(&site.provider), Quoted(&site.name));
            write!(out, "  site {binary} {provider} {name} {} {}", site.address, site.cookie)?;
            if let Some(semaphore) = site.semaphore {
                write!(out, " semaphore {semaphore}")?;
            }
            if site.by_pattern {
                out.write_str(" by_pattern")?;
            }
            out.write_char('\n')?;
        }
    }
    if let Trigger::Kernel { sites } = &function.trigger {
        for KernelSite { event, cookie } in sites {
            out.write_str("  site ")?;
            match event {
                KernelEvent::Tracepoint { subsystem, name } => {
                    write!(out, "tracepoint {} {}", Quoted(subsystem), Quoted(name))?;
                }
                KernelEvent::RawTracepoint { name } => write!(out, "raw_tracepoint {}", Quoted(name))?,
                KernelEvent::Function { name, offset, is_return } => {
                    let end = if *is_return { "return" } else { "entry" };
                    write!(out, "function {} {offset} {end}", Quoted(name))?;
                }
                KernelEvent::Call { name } => write!(out, "call {}", Quoted(name))?,
                KernelEvent::TypedFunction { name, is_return } => {
                    let end = if *is_return { "return" } else { "entry" };
                    write!(out, "typed_function {} {end}", Quoted(name))?;
                }
                KernelEvent::Clock { period_ns } => write!(out, "clock {period_ns}")?,
                KernelEvent::Counter { kind, config, count } => {
                    write!(out, "{} {config} {count}", kind.name())?;
                }
                KernelEvent::Watchpoint { address, bytes, access } => {
                    write!(out, "watchpoint {address} {bytes} {access}")?;
                }
                KernelEvent::Iterator { name } => write!(out, "iterator {}", Quoted(name))?,
            }
            writeln!(out, " {cookie}")?;
        }
    }
    let defined = defined_values(function);
    for (index, ty) in function.types.iter().enumerate().filter(|(index, _)| !defined[*index]) {
        writeln!(out, "  value v{index}: {}", Shown(ty))?;
    }
    for (index, block) in function.blocks.iter().enumerate() {
        write_block(out, index, block, function, schema)?;
    }
    out.write_str("}\n")
}

fn defined_values(function: &Function) -> Vec<bool> {
    let mut defined = vec![false; function.types.len()];
    for block in &function.blocks {
        for value in block.params.iter().copied().chain(block.insts.iter().filter_map(|inst| inst.result)) {
            if let Some(slot) = defined.get_mut(value.0 as usize) {
                *slot = true;
            }
        }
    }
    defined
}

fn write_block(
    out: &mut String,
    index: usize,
    block: &Block,
    function: &Function,
    schema: &Schema,
) -> FmtResult {
    write!(out, "b{index}")?;
    let typed = |value: Value| Typed(value, function.types.get(value.0 as usize));
    if !block.params.is_empty() {
        write!(out, "({})", List(block.params.iter().map(|&param| typed(param))))?;
    }
    out.write_str(":\n")?;
    for inst in &block.insts {
        out.write_str("  ")?;
        if let Some(result) = inst.result {
            write!(out, "{} = ", typed(result))?;
        }
        write_op(out, &inst.op, schema)?;
        out.write_char('\n')?;
    }
    out.write_str("  ")?;
    match &block.end {
        Terminator::Return => out.write_str("return")?,
        Terminator::Accept => out.write_str("accept")?,
        Terminator::Jump { to, args } => write!(out, "jump {}", Target(*to, args))?,
        Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } => write!(
            out,
            "branch {}, {}, {}",
            Shown(condition),
            Target(*then, then_args),
            Target(*otherwise, otherwise_args)
        )?,
    }
    out.write_char('\n')
}

fn write_op(out: &mut String, op: &Op, schema: &Schema) -> FmtResult {
    let place = |map: &MapId, key: &[Value]| {
        let name = MapName(schema, map.0 as usize);
        if key.is_empty() { format!("{name}") } else { format!("{name}[{}]", List(key.iter().map(Shown))) }
    };
    match op {
        Op::Int(value) => write!(out, "int {value}"),
        Op::Str(text) => write!(out, "str {}", Quoted(text)),
        Op::Builtin(Builtin::Arg(n)) => write!(out, "arg {n}"),
        Op::Builtin(Builtin::Float(n)) => write!(out, "farg {n}"),
        Op::Builtin(Builtin::Slot(n)) => write!(out, "slot {n}"),
        Op::Builtin(Builtin::Field { offset, bytes }) => write!(out, "field {offset} {bytes}"),
        Op::Builtin(Builtin::Register(n)) => write!(out, "reg {n}"),
        Op::Builtin(builtin) => out.write_str(name_in(&Builtin::NAMES, builtin)),
        Op::Bin(op, a, b) => write!(out, "{} {}, {}", name_in(&BinOp::NAMES, op), Shown(a), Shown(b)),
        Op::Cmp(op, a, b) => write!(out, "{} {}, {}", name_in(&CmpOp::NAMES, op), Shown(a), Shown(b)),
        Op::StrEq { a, b, negate, first } => {
            write!(out, "{} {}, {}", if *negate { "strne" } else { "streq" }, Shown(a), Shown(b))?;
            first.iter().try_for_each(|first| write!(out, " first {first}"))
        }
        Op::TextBegins { slot, text, ends } => {
            write!(out, "{} {slot} {}", if *ends { "text_is" } else { "text_begins" }, Quoted(text))
        }
        Op::UserSymbol { address } => write!(out, "user_symbol {}", Shown(address)),
        Op::StackLength(most) => write!(out, "stack_length {most}"),
        Op::KernelSymbol { address } => write!(out, "kernel_symbol {}", Shown(address)),
        Op::KernelStack(form) => write!(out, "kernel_stack {} {}", form.mode.name(), form.frames),
        Op::UserStack(form) => write!(out, "user_stack {} {}", form.mode.name(), form.frames),
        Op::MayLoop => out.write_str("may_loop"),
        Op::CallProgram => out.write_str("call_program"),
        Op::Match { text, bytes_max, automaton } => write_match(out, text, *bytes_max, automaton),
        Op::ReadBytes { address, bytes, limit } => {
            write!(out, "read_bytes {bytes} {}", Shown(address))?;
            limit.iter().try_for_each(|limit| write!(out, ", {}", Shown(limit)))
        }
        Op::Join(parts) => {
            out.write_str("join (")?;
            for (index, (value, bytes)) in parts.iter().enumerate() {
                write!(out, "{}{} {bytes}", if index > 0 { ", " } else { "" }, Shown(value))?;
            }
            out.write_str(")")
        }
        Op::StrFind { text, part } => write!(out, "strfind {}, {}", Shown(text), Shown(part)),
        Op::StrCat { a, b } => write!(out, "strcat {}, {}", Shown(a), Shown(b)),
        Op::MemCmp { a, b, bytes } => write!(out, "memcmp {bytes} {}, {}", Shown(a), Shown(b)),
        Op::ReadStrings { address, most, each } => {
            write!(out, "read_strings {most} {each} {}", Shown(address))
        }
        Op::StrLen(text) => write!(out, "strlen {}", Shown(text)),
        Op::Part { of, offset, bytes } => write!(out, "part {offset} {bytes} {}", Shown(of)),
        Op::ReadInt { address, bytes } => write!(out, "read_int {bytes} {}", Shown(address)),
        Op::ReadStr { address, limit: None } => write!(out, "read_str {}", Shown(address)),
        Op::ReadStr { address, limit: Some(limit) } => {
            write!(out, "read_str {}, {}", Shown(address), Shown(limit))
        }
        Op::MapGet { map, key } => write!(out, "get {}", place(map, key)),
        Op::MapNext { map, cursor } => write!(out, "next {}, {}", place(map, &[]), Shown(cursor)),
        Op::MapHas { map, key } => write!(out, "has {}", place(map, key)),
        Op::MapSet { map, key, value } => write!(out, "set {}, {}", place(map, key), Shown(value)),
        Op::MapAdd { map, key, delta } => write!(out, "add_to {}, {}", place(map, key), Shown(delta)),
        Op::MapDelete { map, key } => write!(out, "delete {}", place(map, key)),
        Op::Aggregate { map, key, value: None } => write!(out, "aggregate {}", place(map, key)),
        Op::Aggregate { map, key, value: Some(value) } => {
            write!(out, "aggregate {}, {}", place(map, key), Shown(value))
        }
        Op::Signal { number, to_thread } => {
            let to = if *to_thread { "signal_thread" } else { "signal" };
            write!(out, "{to} {}", Shown(number))
        }
        Op::SetSessionCookie { value } => write!(out, "set_session_cookie {}", Shown(value)),
        Op::Emit { action, args } => write!(out, "emit {}({})", action.0, List(args.iter().map(Shown))),
        Op::Record { event, args, marked } => {
            write!(out, "record {}({})", event.0, List(args.iter().map(Shown)))?;
            marked.iter().try_for_each(|marked| write!(out, ", marked {}", Shown(marked)))
        }
    }
}

/// The text, the most bytes looked at; start, matching, live and number of classes; then, in hexadecimal digits, the class of each
/// byte and the rows, two bytes a state, the low one first.
fn write_match(out: &mut String, text: &Value, bytes_max: u32, automaton: &Automaton) -> FmtResult {
    let Automaton { start, matching, live, class_count, .. } = automaton;
    write!(out, "match {}, {bytes_max}, {start} {matching} {live} {class_count} \"", Shown(text))?;
    automaton.classes.iter().try_for_each(|class| write!(out, "{class:02x}"))?;
    out.write_str("\" \"")?;
    automaton.rows.iter().try_for_each(|state| write!(out, "{:04x}", state.swap_bytes()))?;
    out.write_char('"')
}

/// The name of `wanted` in one of the tables of `ops`.
fn name_in<T: PartialEq>(names: &[(T, &'static str)], wanted: &T) -> &'static str {
    // SANITY: the tables list every case; `names_are_complete` below pins it.
    names.iter().find(|(op, _)| op == wanted).map(|(_, name)| *name).expect("the table lists every operation")
}

/// A value of the IR or of the schema in its text form.
struct Shown<T>(T);

impl Display for Shown<&Value> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        write!(out, "v{}", self.0.0)
    }
}

impl Display for Shown<&Type> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        match self.0 {
            Type::Int { signed: true } => out.write_str("i64"),
            Type::Int { signed: false } => out.write_str("u64"),
            Type::Double => out.write_str("f64"),
            Type::Str { bytes } => write!(out, "str{bytes}"),
            Type::Probe => out.write_str("probe"),
            Type::Func => out.write_str("func"),
            Type::Usym => out.write_str("usym"),
            Type::Inet => out.write_str("inet"),
            Type::Buffer { bytes } => write!(out, "buf{bytes}"),
            Type::Pointer(to) => write!(out, "ptr{}", to.0),
            Type::Word(Word::Time { format }) => write!(out, "word time {}", Quoted(format)),
            Type::Word(Word::Enum(of)) => write!(out, "word enum {}", of.0),
            Type::Word(word) => {
                let name = Word::NAMES.iter().find(|(known, _)| known == word).map_or("?", |(_, name)| name);
                write!(out, "word {name}")
            }
            Type::Object { ty, bytes } => write!(out, "obj{bytes} of {}", ty.0),
            Type::Ustack(form) => write!(out, "ustack {} {}", form.mode.name(), form.frames),
            Type::Tuple(parts) => write!(out, "({})", List(parts.iter().map(Shown))),
            Type::Record(parts) => write!(out, "{{{}}}", List(parts.iter().map(Shown))),
        }
    }
}

impl Display for Shown<&(String, Type)> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        let (name, ty) = self.0;
        write!(out, "{name}: {}", Shown(ty))
    }
}

impl Display for Shown<&Field> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        write!(out, "{} at {}", Shown(&self.0.ty), self.0.offset)
    }
}

impl Display for Shown<&MapSchema> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        let map = self.0;
        out.write_str(&map.name)?;
        if let Some(key) = &map.key {
            write!(out, "[{}]", Shown(key))?;
        }
        if map.map_index != 0 {
            write!(out, " #{}", map.map_index)?;
        }
        let int = |signed: bool| Type::Int { signed };
        match &map.value {
            MapValue::Plain(ty) => write!(out, " plain {}", Shown(ty)),
            MapValue::Count => write!(out, " count"),
            MapValue::Sum { signed } => write!(out, " sum {}", Shown(&int(*signed))),
            MapValue::Avg { signed } => write!(out, " avg {}", Shown(&int(*signed))),
            MapValue::Stats { signed } => write!(out, " stats {}", Shown(&int(*signed))),
            MapValue::Min { signed } => write!(out, " min {}", Shown(&int(*signed))),
            MapValue::Max { signed } => write!(out, " max {}", Shown(&int(*signed))),
            MapValue::Hist { bits: 0 } => write!(out, " hist"),
            MapValue::Hist { bits } => write!(out, " hist bits {bits}"),
            MapValue::Tseries { interval_ns, intervals, of, signed } => {
                write!(out, " tseries {interval_ns} {intervals} {} {}", of.name(), Shown(&int(*signed)))
            }
            MapValue::Lhist { min, max, step } => write!(out, " lhist {min} {max} {step}"),
        }?;
        match map.room {
            Some(room) => write!(out, " {} {}", if room.evicts { "lru" } else { "entries" }, room.entries),
            None => Ok(()),
        }
    }
}

/// A value where it is defined.
struct Typed<'a>(Value, Option<&'a Type>);

impl Display for Typed<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        match self.1 {
            Some(ty) => write!(out, "{}: {}", Shown(&self.0), Shown(ty)),
            None => write!(out, "{}: ?", Shown(&self.0)),
        }
    }
}

struct Target<'a>(BlockId, &'a [Value]);

impl Display for Target<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        write!(out, "b{}", self.0.0)?;
        if self.1.is_empty() { Ok(()) } else { write!(out, "({})", List(self.1.iter().map(Shown))) }
    }
}

struct MapName<'a>(&'a Schema, usize);

impl Display for MapName<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        match self.0.maps.get(self.1) {
            Some(map) => out.write_str(&map.name),
            None => write!(out, "@?{}", self.1),
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        out.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(out, "\\{c}")?,
                '\n' => out.write_str("\\n")?,
                '\t' => out.write_str("\\t")?,
                c if c.is_control() => write!(out, "\\u{{{:x}}}", c as u32)?,
                c => out.write_char(c)?,
            }
        }
        out.write_char('"')
    }
}

/// Items with commas between.
struct List<I>(I);

impl<I: Iterator<Item: Display> + Clone> Display for List<I> {
    fn fmt(&self, out: &mut Formatter<'_>) -> FmtResult {
        for (index, item) in self.0.clone().enumerate() {
            if index > 0 {
                out.write_str(", ")?;
            }
            write!(out, "{item}")?;
        }
        Ok(())
    }
}
