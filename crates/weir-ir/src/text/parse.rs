//! Text → module. Hostile text gives an error with its line; memory stays within a small multiple of the text.

use std::sync::Arc;

use weir_event::ctype::TypeId;
use weir_event::kernel::{CounterKind, KernelEvent};
use weir_event::{
    Action, Field, MapRoom, MapSchema, MapValue, PrintTo, Series, SiteName, StackForm, StackMode, Type, Word,
    schema,
};
use weir_source::Span;

use super::scan::{Token, scan};
use crate::check::{check_lhist, check_type};
use crate::{
    ActionId, Asked, Automaton, BinOp, Block, BlockId, Builtin, CmpOp, EventId, Function, Inst, KernelSite,
    MapId, MissingProbes, Module, Op, SiteSpec, StaticSpec, Terminator, Trigger, Value, limits,
};

/// Why a text is not a module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// From 1.
    pub line: u32,
    pub message: String,
}

/// The module that `text` says. Its grammar is checked, its meaning is not: see [`check`](crate::check).
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let tokens = scan(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, module: Module::default() };
    while !parser.at_end() {
        parser.item()?;
    }
    Ok(parser.module)
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

struct Parser<'a> {
    tokens: &'a [(Token, u32)],
    at: usize,
    module: Module,
}

/// What is known of a function while its text is read: types come with definitions, in any order.
#[derive(Default)]
struct Body {
    types: Vec<Option<Type>>,
    blocks: Vec<Block>,
}

impl<'a> Parser<'a> {
    fn item(&mut self) -> Result<()> {
        match self.word()? {
            "max_map_keys" => self.module.max_map_keys = self.number()?,
            "max_loop_iterations" => self.module.max_loop_iterations = self.number()?,
            "missing_probes" => {
                let word = self.word()?;
                let found = MissingProbes::NAMES.iter().find(|(_, name)| *name == word);
                let fault = || self.error(format!("`{word}` is nothing to do about missing probes"));
                self.module.missing_probes = found.ok_or_else(fault)?.0;
            }
            "hides_maps" => self.module.schema.hides_maps = true,
            "shows_mangled" => self.module.schema.shows_mangled = true,
            "map" => {
                let map = self.map_schema()?;
                self.module.schema.maps.push(map);
            }
            "action" => {
                let action = self.action()?;
                self.module.schema.actions.push(action);
            }
            "event" => {
                let event = self.event()?;
                self.module.schema.events.push(event);
            }
            "site" => {
                let site = SiteName { probe: self.text()?, func: self.text()? };
                self.module.schema.sites.push(site);
            }
            "fn" => {
                let function = self.function()?;
                self.module.functions.push(function);
            }
            other => return Err(self.error(format!("`{other}` begins nothing"))),
        }
        Ok(())
    }

    fn map_schema(&mut self) -> Result<MapSchema> {
        let name = self.map_name()?.to_string();
        let key = if self.take('[') {
            let key = self.ty()?;
            self.expect(']')?;
            Some(key)
        } else {
            None
        };
        let map_index = if self.take('#') { self.number()? } else { 0 };
        let value = match self.word()? {
            "plain" => MapValue::Plain(self.ty()?),
            "count" => MapValue::Count,
            "sum" => MapValue::Sum { signed: self.signed()? },
            "avg" => MapValue::Avg { signed: self.signed()? },
            "stats" => MapValue::Stats { signed: self.signed()? },
            "min" => MapValue::Min { signed: self.signed()? },
            "max" => MapValue::Max { signed: self.signed()? },
            "hist" if self.peek_word() == Some("bits") => {
                self.word()?;
                MapValue::Hist { bits: self.number()? }
            }
            "hist" => MapValue::Hist { bits: 0 },
            "tseries" => {
                let (interval_ns, intervals) = (self.number()?, self.number()?);
                let word = self.word()?;
                let found = Series::NAMES.iter().find(|(_, name)| *name == word);
                let Some((of, _)) = found else {
                    return Err(self.error(format!("`{word}` is nothing that a series keeps")));
                };
                MapValue::Tseries { interval_ns, intervals, of: *of, signed: self.signed()? }
            }
            "lhist" => {
                let (min, max, step) = (self.number()?, self.number()?, self.number()?);
                check_lhist(min, max, step).map_err(|fault| self.error(fault))?;
                MapValue::Lhist { min, max, step }
            }
            other => return Err(self.error(format!("`{other}` is nothing a map holds"))),
        };
        let room = match self.peek_word() {
            Some(word @ ("entries" | "lru")) => {
                let evicts = word == "lru";
                self.word()?;
                Some(MapRoom { entries: self.number()?, evicts })
            }
            _ => None,
        };
        Ok(MapSchema { name, map_index, key, value, room })
    }

    fn action(&mut self) -> Result<Action> {
        Ok(match self.word()? {
            word @ ("printf" | "errorf" | "warnf" | "cat" | "system") => {
                let to = match word {
                    "printf" => PrintTo::Output,
                    "cat" => PrintTo::File(self.number()?),
                    "system" => PrintTo::Command,
                    "errorf" => PrintTo::Error(self.text()?),
                    _ => PrintTo::Warning(self.text()?),
                };
                let format = self.text()?;
                let args = self.list('(', ')', Parser::field)?;
                Action::Printf { to, format, args }
            }
            "print_value" => Action::PrintValue { value: self.field()? },
            "print_map" => {
                let map = self.map_index()?;
                self.keyword("top")?;
                let top = self.number()?;
                self.keyword("div")?;
                Action::PrintMap { map, top, div: self.number()? }
            }
            "print_map_key" => Action::PrintMapKey { map: self.map_index()?, key: self.field()? },
            "clear_map" => Action::ClearMap { map: self.map_index()? },
            "zero_map" => Action::ZeroMap { map: self.map_index()? },
            "time" => Action::Time { format: self.text()? },
            "join" => Action::Join { separator: self.text()?, strings: self.field()? },
            "loop_ended" => Action::LoopEnded { clause: self.text()?, line: self.number()? },
            "exit" => Action::Exit { code: if self.begins_type() { Some(self.field()?) } else { None } },
            other => return Err(self.error(format!("`{other}` is no action"))),
        })
    }

    fn event(&mut self) -> Result<schema::Schema> {
        let (provider, event) = (self.text()?, self.text()?);
        let mut level = None;
        if self.peek_word() == Some("level") {
            self.at += 1;
            let number = self.number()?;
            level = Some(schema::Level::new(number).ok_or_else(|| self.error(format!("no level {number}")))?);
        }
        let fields = self.list('(', ')', Parser::event_field)?;
        Ok(schema::Schema { provider, event, level, fields })
    }

    fn event_field(&mut self) -> Result<schema::Field> {
        let (name, ty) = (self.text()?, self.event_type()?);
        let form = match self.peek_word() {
            Some("hex") => schema::Form::Hexadecimal,
            Some("characters") => schema::Form::Text,
            Some("network") => schema::Form::Network,
            Some("network_hex") => schema::Form::NetworkHexadecimal,
            _ => schema::Form::Decimal,
        };
        self.at += usize::from(form != schema::Form::Decimal);
        self.keyword("slot")?;
        Ok(schema::Field { name, ty, slot: self.number()?, form })
    }

    fn event_type(&mut self) -> Result<schema::Type> {
        Ok(match self.peek_word() {
            Some("string") => self.taken(schema::Type::Str),
            Some("text") => self.taken(schema::Type::Text),
            Some("enum") => {
                self.at += 1;
                let schema::Type::Int { bytes, signed } = self.event_number()? else {
                    return Err(self.error("an enumeration is of integers"));
                };
                let labels = self.list('[', ']', |parser| {
                    let label = parser.text()?;
                    Ok((label, parser.number()?, parser.number()?))
                })?;
                schema::Type::Enum { bytes, signed, labels }
            }
            Some("array") => {
                self.at += 1;
                let count = self.number()?;
                schema::Type::Array { count, element: Box::new(self.event_number()?) }
            }
            Some("sequence") => {
                self.at += 1;
                schema::Type::Sequence { element: Box::new(self.event_number()?) }
            }
            Some("stack") => {
                self.at += 1;
                schema::Type::Stack { frames: self.number()? }
            }
            Some("struct") => {
                self.at += 1;
                let fields = self.list('[', ']', |parser| {
                    let name = parser.text()?;
                    Ok((name, parser.number()?, parser.event_number()?))
                })?;
                schema::Type::Struct { fields }
            }
            _ => self.event_number()?,
        })
    }

    fn taken<T>(&mut self, what: T) -> T {
        self.at += 1;
        what
    }

    /// `i4`, `u8`, `f4` and the like: a letter and bytes.
    fn event_number(&mut self) -> Result<schema::Type> {
        Ok(match self.word()? {
            "i1" => schema::Type::Int { bytes: 1, signed: true },
            "i2" => schema::Type::Int { bytes: 2, signed: true },
            "i4" => schema::Type::Int { bytes: 4, signed: true },
            "i8" => schema::Type::Int { bytes: 8, signed: true },
            "u1" => schema::Type::Int { bytes: 1, signed: false },
            "u2" => schema::Type::Int { bytes: 2, signed: false },
            "u4" => schema::Type::Int { bytes: 4, signed: false },
            "u8" => schema::Type::Int { bytes: 8, signed: false },
            "f4" => schema::Type::Float { bytes: 4 },
            "f8" => schema::Type::Float { bytes: 8 },
            other => return Err(self.error(format!("`{other}` is no type of a field"))),
        })
    }

    fn field(&mut self) -> Result<Field> {
        let ty = self.ty()?;
        self.keyword("at")?;
        Ok(Field { offset: self.number()?, ty })
    }

    fn function(&mut self) -> Result<Function> {
        let name = self.text()?;
        let mut trigger = match self.word()? {
            "begin" => Trigger::Begin,
            "end" => Trigger::End,
            "interval" => Trigger::Interval { period_ns: self.number()? },
            "uprobe" => Trigger::Uprobe { sites: Vec::new() },
            "uretprobe" => Trigger::Uretprobe { sites: Vec::new() },
            "session" => Trigger::Session { sites: Vec::new() },
            "usdt" => Trigger::Usdt { sites: Vec::new() },
            "kernel" => Trigger::Kernel { sites: Vec::new() },
            "filter" => Trigger::Filter,
            other => match Asked::NAMES.iter().find(|(_, name)| *name == other) {
                Some((by, _)) => Trigger::Asked { by: *by },
                None => return Err(self.error(format!("`{other}` is no trigger"))),
            },
        };
        let mut span = Span::default();
        if self.peek_word() == Some("span") {
            self.at += 1;
            span = Span { start: self.number()?, end: self.number()? };
        }
        self.expect('{')?;
        let mut body = Body::default();
        while !self.take('}') {
            self.function_item(&mut trigger, &mut body)?;
        }
        let types = body
            .types
            .into_iter()
            .enumerate()
            .map(|(index, ty)| ty.ok_or_else(|| self.error(format!("nothing gives v{index} a type"))))
            .collect::<Result<_>>()?;
        Ok(Function { name, trigger, types, blocks: body.blocks, span })
    }

    fn site(&mut self) -> Result<SiteSpec> {
        let (binary, function, cookie) = (self.text()?, self.text()?, self.number()?);
        let address = if self.peek_word() == Some("at") {
            self.at += 1;
            Some(self.number()?)
        } else {
            None
        };
        Ok(SiteSpec { binary, function, address, cookie, by_pattern: self.by_pattern() })
    }

    fn static_site(&mut self) -> Result<StaticSpec> {
        let (binary, provider, name) = (self.text()?, self.text()?, self.text()?);
        let (address, cookie) = (self.number()?, self.number()?);
        let semaphore = if self.peek_word() == Some("semaphore") {
            self.at += 1;
            Some(self.number()?)
        } else {
            None
        };
        let by_pattern = self.by_pattern();
        Ok(StaticSpec { binary, provider, name, address, semaphore, cookie, by_pattern })
    }

    fn is_return(&mut self) -> Result<bool> {
        match self.word()? {
            "entry" => Ok(false),
            "return" => Ok(true),
            other => Err(self.error(format!("`{other}` is no end of a function"))),
        }
    }

    fn kernel_site(&mut self) -> Result<KernelSite> {
        let event = match self.word()? {
            "tracepoint" => KernelEvent::Tracepoint { subsystem: self.text()?, name: self.text()? },
            "raw_tracepoint" => KernelEvent::RawTracepoint { name: self.text()? },
            "function" => {
                let (name, offset) = (self.text()?, self.number()?);
                KernelEvent::Function { name, offset, is_return: self.is_return()? }
            }
            "typed_function" => {
                KernelEvent::TypedFunction { name: self.text()?, is_return: self.is_return()? }
            }
            "call" => KernelEvent::Call { name: self.text()? },
            "clock" => KernelEvent::Clock { period_ns: self.number()? },
            "watchpoint" => KernelEvent::Watchpoint {
                address: self.number()?,
                bytes: self.number()?,
                access: self.number()?,
            },
            "iterator" => KernelEvent::Iterator { name: self.text()? },
            other => match CounterKind::ALL.into_iter().find(|kind| kind.name() == other) {
                Some(kind) => KernelEvent::Counter { kind, config: self.number()?, count: self.number()? },
                None => return Err(self.error(format!("`{other}` is no event of the kernel"))),
            },
        };
        Ok(KernelSite { event, cookie: self.number()? })
    }

    fn by_pattern(&mut self) -> bool {
        let is_there = self.peek_word() == Some("by_pattern");
        self.at += usize::from(is_there);
        is_there
    }

    fn function_item(&mut self, trigger: &mut Trigger, body: &mut Body) -> Result<()> {
        match self.peek_word() {
            Some("site") => {
                self.at += 1;
                match trigger {
                    Trigger::Uprobe { sites } | Trigger::Uretprobe { sites } | Trigger::Session { sites } => {
                        sites.push(self.site()?);
                    }
                    Trigger::Usdt { sites } => sites.push(self.static_site()?),
                    Trigger::Kernel { sites } => sites.push(self.kernel_site()?),
                    _ => return Err(self.error("a site of a function that has none")),
                }
            }
            Some("value") => {
                self.at += 1;
                self.definition(body)?;
            }
            _ => self.block(body)?,
        }
        Ok(())
    }

    /// `bN(params): insts terminator`.
    fn block(&mut self, body: &mut Body) -> Result<()> {
        let id = self.block_id()?;
        if id.0 as usize != body.blocks.len() {
            return Err(self.error(format!("b{} where b{} is next", id.0, body.blocks.len())));
        }
        if body.blocks.len() >= limits::BLOCKS_MAX {
            return Err(self.error(format!("more than {} blocks", limits::BLOCKS_MAX)));
        }
        let params = if self.peek_is('(') {
            self.list('(', ')', |parser| parser.definition(body))?
        } else {
            Vec::new()
        };
        self.expect(':')?;
        let mut insts = Vec::new();
        let end = loop {
            if let Some(end) = self.terminator()? {
                break end;
            }
            insts.push(self.inst(body)?);
        };
        body.blocks.push(Block { params, insts, end });
        Ok(())
    }

    fn terminator(&mut self) -> Result<Option<Terminator>> {
        let word = self.peek_word();
        if !matches!(word, Some("return" | "accept" | "jump" | "branch")) {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(match word {
            Some("jump") => {
                let (to, args) = self.target()?;
                Terminator::Jump { to, args }
            }
            Some("branch") => {
                let condition = self.value()?;
                self.expect(',')?;
                let (then, then_args) = self.target()?;
                self.expect(',')?;
                let (otherwise, otherwise_args) = self.target()?;
                Terminator::Branch { condition, then, then_args, otherwise, otherwise_args }
            }
            Some("accept") => Terminator::Accept,
            _ => Terminator::Return,
        }))
    }

    fn target(&mut self) -> Result<(BlockId, Vec<Value>)> {
        let to = self.block_id()?;
        let args = if self.peek_is('(') { self.list('(', ')', Parser::value)? } else { Vec::new() };
        Ok((to, args))
    }

    fn inst(&mut self, body: &mut Body) -> Result<Inst> {
        let result = match self.peek_word().and_then(|word| numbered(word, 'v')) {
            Some(_) => {
                let result = self.definition(body)?;
                self.expect('=')?;
                Some(result)
            }
            None => None,
        };
        Ok(Inst { result, op: self.op()? })
    }

    /// `v0: u64`; a second type for the same value must be the same.
    fn definition(&mut self, body: &mut Body) -> Result<Value> {
        let value = self.value()?;
        self.expect(':')?;
        let ty = self.ty()?;
        let index = value.0 as usize;
        if index >= body.types.len() {
            body.types.resize(index + 1, None);
        }
        match &body.types[index] {
            Some(other) if *other != ty => return Err(self.error(format!("v{index} has two types"))),
            _ => body.types[index] = Some(ty),
        }
        Ok(value)
    }

    fn op(&mut self) -> Result<Op> {
        let word = self.word()?;
        if let Some((op, _)) = BinOp::NAMES.iter().find(|(_, name)| *name == word) {
            let (a, b) = self.two_values()?;
            return Ok(Op::Bin(*op, a, b));
        }
        if let Some((op, _)) = CmpOp::NAMES.iter().find(|(_, name)| *name == word) {
            let (a, b) = self.two_values()?;
            return Ok(Op::Cmp(*op, a, b));
        }
        if let Some((builtin, _)) = Builtin::NAMES.iter().find(|(_, name)| *name == word) {
            return Ok(Op::Builtin(*builtin));
        }
        match word {
            "int" => Ok(Op::Int(self.number()?)),
            "str" => Ok(Op::Str(self.text()?)),
            "arg" => Ok(Op::Builtin(Builtin::Arg(self.number()?))),
            "farg" => Ok(Op::Builtin(Builtin::Float(self.number()?))),
            "slot" => Ok(Op::Builtin(Builtin::Slot(self.number()?))),
            "field" => Ok(Op::Builtin(Builtin::Field { offset: self.number()?, bytes: self.number()? })),
            "reg" => Ok(Op::Builtin(Builtin::Register(self.number()?))),
            "read_int" => {
                let bytes = self.number()?;
                Ok(Op::ReadInt { address: self.value()?, bytes })
            }
            "read_bytes" => {
                let bytes = self.number()?;
                let address = self.value()?;
                let limit = if self.take(',') { Some(self.value()?) } else { None };
                Ok(Op::ReadBytes { address, bytes, limit })
            }
            "join" => Ok(Op::Join(self.list('(', ')', |parser| Ok((parser.value()?, parser.number()?)))?)),
            "strlen" => Ok(Op::StrLen(self.value()?)),
            "strfind" => self.two_values().map(|(text, part)| Op::StrFind { text, part }),
            "strcat" => self.two_values().map(|(a, b)| Op::StrCat { a, b }),
            "memcmp" => {
                let bytes = self.number()?;
                self.two_values().map(|(a, b)| Op::MemCmp { a, b, bytes })
            }
            "read_strings" => {
                let (most, each) = (self.number()?, self.number()?);
                Ok(Op::ReadStrings { address: self.value()?, most, each })
            }
            "part" => {
                let (offset, bytes) = (self.number()?, self.number()?);
                Ok(Op::Part { of: self.value()?, offset, bytes })
            }
            "user_symbol" => Ok(Op::UserSymbol { address: self.value()? }),
            "stack_length" => Ok(Op::StackLength(self.number()?)),
            "kernel_symbol" => Ok(Op::KernelSymbol { address: self.value()? }),
            "kernel_stack" => Ok(Op::KernelStack(self.stack_form()?)),
            "user_stack" => Ok(Op::UserStack(self.stack_form()?)),
            "may_loop" => Ok(Op::MayLoop),
            "call_program" => Ok(Op::CallProgram),
            "signal" => Ok(Op::Signal { number: self.value()?, to_thread: false }),
            "signal_thread" => Ok(Op::Signal { number: self.value()?, to_thread: true }),
            "set_session_cookie" => Ok(Op::SetSessionCookie { value: self.value()? }),
            "streq" | "strne" => {
                let (a, b) = self.two_values()?;
                let is_cut = self.peek_word() == Some("first");
                let first =
                    if is_cut { Some(self.keyword("first").and_then(|()| self.number())?) } else { None };
                Ok(Op::StrEq { a, b, negate: word == "strne", first })
            }
            "text_is" | "text_begins" => {
                let slot = self.number()?;
                Ok(Op::TextBegins { slot, text: self.text()?, ends: word == "text_is" })
            }
            "read_str" => {
                let address = self.value()?;
                let limit = if self.take(',') { Some(self.value()?) } else { None };
                Ok(Op::ReadStr { address, limit })
            }
            "match" => self.match_op(),
            "emit" => {
                let action = ActionId(self.number()?);
                Ok(Op::Emit { action, args: self.list('(', ')', Parser::value)? })
            }
            "record" => {
                let event = EventId(self.number()?);
                let args = self.list('(', ')', Parser::value)?;
                let marked = match self.take(',') {
                    true => self.keyword("marked").and_then(|()| self.value().map(Some))?,
                    false => None,
                };
                Ok(Op::Record { event, args, marked })
            }
            "get" | "has" | "next" | "set" | "add_to" | "delete" | "aggregate" => self.map_op(word),
            other => Err(self.error(format!("`{other}` is no operation"))),
        }
    }

    fn match_op(&mut self) -> Result<Op> {
        let text = self.value()?;
        self.expect(',')?;
        let bytes_max = self.number()?;
        self.expect(',')?;
        let (start, matching, live) = (self.number()?, self.number()?, self.number()?);
        let class_count = self.number()?;
        let classes = self.hexadecimal()?;
        let rows = self.hexadecimal()?;
        let rows =
            rows.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        let automaton = Automaton { classes, class_count, rows: rows.collect(), start, matching, live };
        Ok(Op::Match { text, bytes_max, automaton: Arc::new(automaton) })
    }

    /// The bytes of a text of hexadecimal digits.
    fn hexadecimal(&mut self) -> Result<Vec<u8>> {
        let text = self.text()?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits = digits.ok_or_else(|| self.error("pairs of hexadecimal digits are wanted"))?;
        Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }

    fn map_op(&mut self, word: &str) -> Result<Op> {
        let map = MapId(self.map_index()? as u32);
        let key = if self.peek_is('[') { self.list('[', ']', Parser::value)? } else { Vec::new() };
        Ok(match word {
            "get" => Op::MapGet { map, key },
            "has" => Op::MapHas { map, key },
            "delete" => Op::MapDelete { map, key },
            "aggregate" => {
                let value = if self.take(',') { Some(self.value()?) } else { None };
                Op::Aggregate { map, key, value }
            }
            _ => {
                self.expect(',')?;
                let value = self.value()?;
                match word {
                    "set" => Op::MapSet { map, key, value },
                    "next" if key.is_empty() => Op::MapNext { map, cursor: value },
                    "next" => return Err(self.error("`next` takes a map without a key")),
                    _ => Op::MapAdd { map, key, delta: value },
                }
            }
        })
    }

    fn two_values(&mut self) -> Result<(Value, Value)> {
        let a = self.value()?;
        self.expect(',')?;
        Ok((a, self.value()?))
    }

    /// A type within the limits, so that sums of bytes cannot overflow.
    fn ty(&mut self) -> Result<Type> {
        let ty = self.nested_type(0)?;
        check_type(&ty).map_err(|fault| self.error(fault))?;
        Ok(ty)
    }

    fn nested_type(&mut self, depth: usize) -> Result<Type> {
        let is_record = self.peek_is('{');
        if is_record || self.peek_is('(') {
            if depth >= limits::TUPLE_DEPTH_MAX {
                return Err(self.error(format!("tuples more than {} deep", limits::TUPLE_DEPTH_MAX)));
            }
            if is_record {
                return Ok(Type::Record(self.list('{', '}', |parser| {
                    let name = parser.word()?.to_owned();
                    parser.expect(':')?;
                    Ok((name, parser.nested_type(depth + 1)?))
                })?));
            }
            return Ok(Type::Tuple(self.list('(', ')', |parser| parser.nested_type(depth + 1))?));
        }
        let word = self.word()?;
        match word {
            "i64" => Ok(Type::I64),
            "u64" => Ok(Type::U64),
            "f64" => Ok(Type::Double),
            "probe" => Ok(Type::Probe),
            "func" => Ok(Type::Func),
            "usym" => Ok(Type::Usym),
            "inet" => Ok(Type::Inet),
            "ustack" => Ok(Type::Ustack(self.stack_form()?)),
            "word" => {
                let word = self.word()?;
                if word == "enum" {
                    return Ok(Type::Word(Word::Enum(TypeId(self.number()?))));
                }
                if word == "time" {
                    return Ok(Type::Word(Word::Time { format: self.text()? }));
                }
                let known = Word::NAMES.iter().find(|(_, name)| *name == word);
                known
                    .map(|(word, _)| Type::Word(word.clone()))
                    .ok_or_else(|| self.error(format!("`{word}` is no word")))
            }
            _ => {
                let number = |prefix| word.strip_prefix(prefix).and_then(|digits| digits.parse().ok());
                if let Some(bytes) = number("buf") {
                    return Ok(Type::Buffer { bytes });
                }
                match (number("str"), number("ptr"), number("obj")) {
                    (Some(bytes), _, _) => Ok(Type::Str { bytes }),
                    (_, Some(to), _) => Ok(Type::Pointer(TypeId(to))),
                    (_, _, Some(bytes)) => {
                        self.keyword("of")?;
                        Ok(Type::Object { ty: TypeId(self.number()?), bytes })
                    }
                    (None, None, None) => Err(self.error(format!("`{word}` is no type"))),
                }
            }
        }
    }

    /// A mode and a number of frames.
    fn stack_form(&mut self) -> Result<StackForm> {
        let word = self.word()?;
        let found = StackMode::NAMES.iter().find(|(_, name)| *name == word);
        let Some((mode, _)) = found else { return Err(self.error(format!("`{word}` is no mode of stacks"))) };
        Ok(StackForm { mode: *mode, frames: self.number()? })
    }

    fn signed(&mut self) -> Result<bool> {
        match self.ty()? {
            Type::Int { signed } => Ok(signed),
            _ => Err(self.error("i64 or u64 is wanted")),
        }
    }

    fn begins_type(&self) -> bool {
        let is_type = |word: &str| {
            matches!(word, "i64" | "u64" | "f64" | "probe" | "func" | "word" | "inet")
                || word.starts_with("str")
                || word.starts_with("ptr")
                || word.starts_with("obj")
        };
        self.peek_is('(') || self.peek_word().is_some_and(is_type)
    }

    fn list<T>(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.take(close) {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn value(&mut self) -> Result<Value> {
        let word = self.word()?;
        match numbered(word, 'v') {
            // Values are dense, so that a large number in a short text cannot ask for much memory.
            Some(number) if (number as usize) < self.tokens.len().min(limits::VALUES_MAX) => {
                Ok(Value(number))
            }
            Some(number) => Err(self.error(format!("v{number} in a text with fewer values"))),
            None => Err(self.error(format!("`{word}` is no value"))),
        }
    }

    fn block_id(&mut self) -> Result<BlockId> {
        let word = self.word()?;
        numbered(word, 'b').map(BlockId).ok_or_else(|| self.error(format!("`{word}` is no block")))
    }

    fn map_index(&mut self) -> Result<usize> {
        let name = self.map_name()?;
        let found = self.module.schema.maps.iter().position(|map| map.name == name);
        found.ok_or_else(|| self.error(format!("no map {name} is declared above")))
    }

    fn map_name(&mut self) -> Result<&'a str> {
        match self.next()? {
            Token::Map(name) => Ok(name),
            other => Err(self.error(format!("a map's name is wanted, not {other:?}"))),
        }
    }

    fn text(&mut self) -> Result<String> {
        match self.next()? {
            Token::Text(text) => Ok(text.clone()),
            other => Err(self.error(format!("text in quotes is wanted, not {other:?}"))),
        }
    }

    fn number<T: TryFrom<i128>>(&mut self) -> Result<T> {
        match self.next()? {
            Token::Number(number) => {
                T::try_from(*number).map_err(|_| self.error(format!("{number} is out of range here")))
            }
            other => Err(self.error(format!("a number is wanted, not {other:?}"))),
        }
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(self.error(format!("a word is wanted, not {other:?}"))),
        }
    }

    fn keyword(&mut self, wanted: &str) -> Result<()> {
        let word = self.word()?;
        if word == wanted { Ok(()) } else { Err(self.error(format!("`{wanted}` is wanted, not `{word}`"))) }
    }

    fn peek_word(&self) -> Option<&'a str> {
        match self.tokens.get(self.at) {
            Some((Token::Word(word), _)) => Some(word),
            _ => None,
        }
    }

    fn peek_is(&self, punct: char) -> bool {
        matches!(self.tokens.get(self.at), Some((Token::Punct(c), _)) if *c == punct)
    }

    fn take(&mut self, punct: char) -> bool {
        let taken = self.peek_is(punct);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, punct: char) -> Result<()> {
        if self.take(punct) { Ok(()) } else { Err(self.next_error(format!("`{punct}` is wanted"))) }
    }

    fn next(&mut self) -> Result<&'a Token> {
        let token = self.tokens.get(self.at).ok_or_else(|| self.error("the text ends too early"))?;
        self.at += 1;
        Ok(&token.0)
    }

    fn at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// An error at the token last taken.
    fn error(&self, message: impl Into<String>) -> ParseError {
        let line = self.tokens[..self.at].last().map_or(1, |(_, line)| *line);
        ParseError { line, message: message.into() }
    }

    /// An error at the token not yet taken.
    fn next_error(&self, message: String) -> ParseError {
        let line = self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line);
        ParseError { line, message }
    }
}

/// The number of a word such as `v12`, which has no leading zeros.
fn numbered(word: &str, letter: char) -> Option<u32> {
    let digits = word.strip_prefix(letter)?;
    let number: u32 = digits.parse().ok()?;
    (digits == number.to_string()).then_some(number)
}
