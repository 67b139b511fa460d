//! Random modules that `check` accepts, from a seed: one function, up to eight blocks, loops within loops, every operation and map kind.

use weir_event::ctype::TypeId;
use weir_event::kernel::{CounterKind, KernelEvent};
use weir_event::{Action, Field, MapSchema, MapValue, Schema, SiteName, Type};
use weir_ir::dominators::Dominators;
use weir_ir::{
    ActionId, BinOp, Block, BlockId, Builtin, CmpOp, Function, Inst, KernelSite, MapId, MissingProbes,
    Module, Op, Terminator, Trigger, Value, leaves,
};

/// Addresses at which [`Surroundings::memory`](super::evaluate::Surroundings) should hold strings.
pub(crate) const ADDRESSES: [u64; 3] = [0x1000, 0x2000, 0x3000];

/// What a random module may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    /// Bytes of the longest string.
    pub(crate) string_bytes: u32,
    /// Clocks: their values differ between two runs.
    pub(crate) clocks: bool,
    /// Functions at returns, and sessions.
    pub(crate) sessions: bool,
}

/// A module made from `seed`; the same seed gives the same module.
pub(crate) fn module(seed: u64, menu: Menu) -> Module {
    let mut dice = Dice(seed);
    let schema = schema(menu, &mut dice);
    let mut skeleton = skeleton(&mut dice, menu);
    let dominators = Dominators::of(&skeleton);
    let mut maker = Maker {
        dice,
        menu,
        schema: &schema,
        is_session: matches!(skeleton.trigger, Trigger::Session { .. }),
        types: std::mem::take(&mut skeleton.types),
        made: Vec::new(),
    };
    maker.made = skeleton.blocks.iter().map(|block| block.params.clone()).collect();
    for index in 0..skeleton.blocks.len() {
        maker.fill(index, &mut skeleton.blocks, &dominators);
    }
    skeleton.types = maker.types;
    let max_loop_iterations = 1 + maker.dice.below(7) as u32;
    Module {
        functions: vec![skeleton],
        schema,
        max_map_keys: 4096,
        missing_probes: MissingProbes::Warn,
        max_loop_iterations,
    }
}

/// Random numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn int(&mut self) -> i64 {
        match self.below(6) {
            0 => 0,
            1 => self.below(4) as i64,
            2 => -(self.below(4) as i64),
            3 => 1 << self.below(64),
            4 => self.pick(&[i64::MAX, i64::MIN, u32::MAX as i64, i32::MIN as i64, i32::MAX as i64 + 1]),
            _ => self.next() as i64,
        }
    }
}

fn string(menu: Menu, dice: &mut Dice) -> Type {
    let sizes = [8, 16, 24, 64, 72, 128, 1024];
    let fitting: Vec<u32> = sizes.into_iter().filter(|&bytes| bytes <= menu.string_bytes).collect();
    Type::Str { bytes: dice.pick(&fitting) }
}

fn object(dice: &mut Dice) -> Type {
    Type::Object { ty: TypeId(7), bytes: 8 * (1 + dice.below(6) as u32) }
}

fn buffer(dice: &mut Dice) -> Type {
    Type::Buffer { bytes: 16 + 8 * dice.below(10) as u32 }
}

/// What a map keeps of a tuple, an address or a buffer.
fn bytes_of(ty: &Type) -> Type {
    Type::Object { ty: TypeId(0), bytes: ty.bytes() }
}

fn schema(menu: Menu, dice: &mut Dice) -> Schema {
    let signed = dice.below(2) == 0;
    let int = Type::Int { signed };
    let (min, step) = (dice.below(20) as i64 - 10, 1 + dice.below(5) as i64);
    let values = [
        MapValue::Plain(int.clone()),
        MapValue::Plain(Type::Pointer(TypeId(dice.below(9) as u32))),
        MapValue::Plain(Type::Double),
        MapValue::Plain(string(menu, dice)),
        MapValue::Plain(object(dice)),
        MapValue::Plain(Type::Tuple(vec![int.clone(), string(menu, dice), Type::Inet])),
        MapValue::Plain(buffer(dice)),
        MapValue::Count,
        MapValue::Sum { signed },
        MapValue::Avg { signed },
        MapValue::Stats { signed },
        MapValue::Min { signed },
        MapValue::Max { signed },
        MapValue::Hist { bits: 0 },
        MapValue::Hist { bits: 1 + dice.below(5) as u8 },
        MapValue::Lhist { min, max: min + 1 + dice.below(50) as i64, step },
    ];
    let mut maps = Vec::new();
    for value in values {
        let key = match dice.below(5) {
            4 => Type::Tuple(vec![object(dice), int.clone()]),
            0 => int.clone(),
            1 => string(menu, dice),
            2 => Type::Tuple(vec![int.clone(), string(menu, dice)]),
            _ => Type::Tuple(vec![Type::Func, Type::Tuple(vec![string(menu, dice), Type::U64]), Type::Probe]),
        };
        for key in [None, Some(key)] {
            maps.push(MapSchema {
                name: format!("@m{}", maps.len()),
                map_index: 0,
                key,
                value: value.clone(),
                room: None,
            });
        }
    }
    let fields = |types: Vec<Type>| {
        let mut offset = 8;
        let place = |ty: Type| {
            offset += ty.bytes();
            Field { offset: offset - ty.bytes(), ty }
        };
        types.into_iter().map(place).collect::<Vec<Field>>()
    };
    let key = fields(vec![maps[1].key.clone().expect("the second map has a key")]).remove(0);
    let actions = vec![
        Action::Printf {
            to: weir_event::PrintTo::Output,
            format: "%d \"%s\"\n\\ é\u{1}".into(),
            args: {
                // Each of the three may be the last argument, and the last in the record.
                let mut types = vec![int.clone(), string(menu, dice), Type::Func];
                types.rotate_left(dice.below(3));
                let mut args = fields(types);
                args.rotate_left(dice.below(3));
                args
            },
        },
        Action::PrintValue {
            value: fields(vec![Type::Tuple(vec![string(menu, dice), Type::Probe])]).remove(0),
        },
        Action::PrintMap { map: 3, top: 5, div: 2 },
        Action::PrintMapKey { map: 1, key },
        Action::ClearMap { map: 0 },
        Action::ZeroMap { map: 2 },
        Action::Exit { code: None },
        Action::Exit { code: Some(fields(vec![Type::I64]).remove(0)) },
    ];
    let sites =
        (0..3).map(|n| SiteName { probe: format!("uprobe:/x:f{n}"), func: format!("f{n}") }).collect();
    Schema { actions, maps, sites, ..Schema::default() }
}

/// Blocks with their parameters and jumps, without instructions and arguments.
fn skeleton(dice: &mut Dice, menu: Menu) -> Function {
    let count = 1 + dice.below(8);
    let mut types = Vec::new();
    let mut blocks = Vec::new();
    for index in 0..count {
        let mut params = Vec::new();
        for _ in 0..if index == 0 { 0 } else { dice.below(3) } {
            params.push(Value(types.len() as u32));
            types.push(if dice.below(3) == 0 { string(menu, dice) } else { Type::I64 });
        }
        let later = |dice: &mut Dice| BlockId((index + 1 + dice.below(count - index - 1)) as u32);
        let end = match dice.below(5) {
            _ if index + 1 == count => Terminator::Return,
            0 => Terminator::Return,
            1 => Terminator::Jump { to: later(dice), args: Vec::new() },
            _ => Terminator::Branch {
                condition: Value(0),
                then: later(dice),
                then_args: Vec::new(),
                otherwise: later(dice),
                otherwise_args: Vec::new(),
            },
        };
        blocks.push(Block { params, insts: Vec::new(), end });
    }
    add_loops(dice, &mut blocks);
    let site = || {
        vec![weir_ir::SiteSpec {
            binary: "/x".into(),
            function: "f0".into(),
            address: None,
            cookie: 0,
            by_pattern: true,
        }]
    };
    let trigger = match dice.below(if menu.sessions { 6 } else { 4 }) {
        0 if dice.below(4) == 0 => Trigger::Asked { by: weir_ir::Asked::NAMES[dice.below(3)].0 },
        0 => Trigger::Begin,
        1 if dice.below(4) == 0 => Trigger::Kernel { sites: vec![kernel_site(dice)] },
        1 => Trigger::Interval { period_ns: 1_000_000 },
        2 => Trigger::Usdt {
            sites: vec![weir_ir::StaticSpec {
                binary: "/x".into(),
                provider: "p".into(),
                name: "n".into(),
                address: 0x1000,
                semaphore: (dice.below(2) == 0).then_some(0x2000),
                cookie: 0,
                by_pattern: false,
            }],
        },
        4 => Trigger::Uretprobe { sites: site() },
        5 => Trigger::Session { sites: site() },
        _ => Trigger::Uprobe { sites: site() },
    };
    let span = weir_source::Span { start: 3, end: 90 };
    Function { name: "uprobe:x:f*".into(), trigger, types, blocks, span }
}

/// One whose programs are given registers, as the model offers them.
fn kernel_site(dice: &mut Dice) -> KernelSite {
    let event = match dice.below(3) {
        0 => KernelEvent::Function { name: "a b".into(), offset: 4, is_return: dice.below(2) == 0 },
        1 => KernelEvent::Clock { period_ns: 1 },
        _ => KernelEvent::Counter { kind: CounterKind::Software, config: 2, count: 3 },
    };
    KernelSite { event, cookie: 0 }
}

/// Makes loops of some blocks: a head, which leads into the loop as long as the run may go round, and behind it otherwise; and a last
/// block, which leads back. Jumps into the middle lead to the head instead.
fn add_loops(dice: &mut Dice, blocks: &mut [Block]) {
    let count = blocks.len();
    let mut loops: Vec<(usize, usize)> = Vec::new();
    for _ in 0..if count < 3 { 0 } else { dice.below(3) } {
        let head = 1 + dice.below(count - 2);
        let last = head + dice.below(count - 1 - head);
        let fits = |&(other, other_last): &(usize, usize)| {
            other_last < head
                || last < other
                || other < head && last < other_last
                || head < other && other_last < last
        };
        if loops.iter().all(fits) {
            loops.push((head, last));
        }
    }
    loops.sort_unstable();
    for &(head, last) in &loops {
        let behind = |dice: &mut Dice| BlockId((last + 1 + dice.below(count - last - 1)) as u32);
        let branch = |then: BlockId, otherwise: BlockId| Terminator::Branch {
            condition: Value(0),
            then,
            then_args: Vec::new(),
            otherwise,
            otherwise_args: Vec::new(),
        };
        let back = BlockId(head as u32);
        if last > head {
            let behind = behind(dice);
            blocks[last].end = match dice.below(3) {
                0 => Terminator::Jump { to: back, args: Vec::new() },
                1 => branch(back, behind),
                _ => branch(behind, back),
            };
        }
        let first = if last == head { head } else { head + 1 + dice.below(last - head) };
        blocks[head].end = branch(BlockId(first as u32), behind(dice));
    }
    for (head, last) in loops {
        for (index, block) in blocks.iter_mut().enumerate().take(head) {
            let enter = |to: &mut BlockId| {
                if (head + 1..=last).contains(&(to.0 as usize)) && to.0 as usize > index {
                    *to = BlockId(head as u32);
                }
            };
            match &mut block.end {
                Terminator::Jump { to, .. } => enter(to),
                Terminator::Branch { then, otherwise, .. } => [then, otherwise].into_iter().for_each(enter),
                Terminator::Return | Terminator::Accept => {}
            }
        }
    }
}

/// A jump leads back to it.
fn is_head(index: usize, blocks: &[Block]) -> bool {
    let leads_back = |(from, block): (usize, &Block)| {
        block.end.successors().any(|(to, _)| to.0 as usize == index && index <= from)
    };
    blocks.iter().enumerate().any(leads_back)
}

struct Maker<'a> {
    dice: Dice,
    menu: Menu,
    schema: &'a Schema,
    is_session: bool,
    types: Vec<Type>,
    /// Values of each block so far.
    made: Vec<Vec<Value>>,
}

impl Maker<'_> {
    fn fill(&mut self, index: usize, blocks: &mut [Block], dominators: &Dominators) {
        let here = BlockId(index as u32);
        let mut usable: Vec<Value> = (0..=index)
            .filter(|&other| other == index || dominators.is_reachable(here))
            .filter(|&other| dominators.dominates(BlockId(other as u32), here))
            .flat_map(|other| self.made[other].clone())
            .collect();
        let mut insts = Vec::new();
        let may_loop = is_head(index, blocks).then(|| {
            // As a front end has it: for the branch alone.
            self.push(Op::MayLoop, Some(Type::I64), &mut Vec::new(), &mut insts).expect("it has a result")
        });
        for _ in 0..self.dice.below(9) {
            self.inst(&mut usable, &mut insts);
        }
        let mut end = blocks[index].end.clone();
        match &mut end {
            Terminator::Return | Terminator::Accept => {}
            Terminator::Jump { to, args } => {
                *args = self.args(&blocks[to.0 as usize], &mut usable, &mut insts)
            }
            Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } => {
                *condition = match may_loop {
                    Some(may_loop) => may_loop,
                    None => self.value(&Type::I64, &mut usable, &mut insts),
                };
                *then_args = self.args(&blocks[then.0 as usize], &mut usable, &mut insts);
                *otherwise_args = self.args(&blocks[otherwise.0 as usize], &mut usable, &mut insts);
            }
        }
        let results = insts.iter().filter_map(|inst: &Inst| inst.result);
        self.made[index].extend(results.filter(|result| Some(*result) != may_loop));
        blocks[index].insts = insts;
        blocks[index].end = end;
    }

    fn args(&mut self, target: &Block, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) -> Vec<Value> {
        let types: Vec<Type> =
            target.params.iter().map(|param| self.types[param.0 as usize].clone()).collect();
        types.iter().map(|ty| self.value(ty, usable, insts)).collect()
    }

    fn inst(&mut self, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) {
        if self.dice.below(3) == 0 {
            let ty = if self.dice.below(3) == 0 { string(self.menu, &mut self.dice) } else { Type::I64 };
            self.fresh(&ty, usable, insts);
            return;
        }
        if self.dice.below(8) == 0 {
            let ty = string(self.menu, &mut self.dice);
            let text = self.value(&ty, usable, insts);
            self.push(Op::StrLen(text), Some(Type::U64), usable, insts);
            return;
        }
        if self.is_session && self.dice.below(6) == 0 {
            let value = self.value(&Type::I64, usable, insts);
            self.push(Op::SetSessionCookie { value }, None, usable, insts);
            return;
        }
        let map = self.dice.below(self.schema.maps.len());
        let schema = self.schema.maps[map].clone();
        let map = MapId(map as u32);
        let key_types: Vec<Type> = schema.key.iter().flat_map(leaves).cloned().collect();
        let mut key = |maker: &mut Self, insts: &mut Vec<Inst>| -> Vec<Value> {
            key_types.iter().map(|ty| maker.value(ty, usable, insts)).collect()
        };
        let (op, result) = match self.dice.below(6) {
            0 => (Op::MapDelete { map, key: key(self, insts) }, None),
            1 => (Op::MapHas { map, key: key(self, insts) }, Some(Type::U64)),
            2 if !matches!(
                schema.value,
                MapValue::Stats { .. } | MapValue::Hist { .. } | MapValue::Lhist { .. }
            ) =>
            {
                let ty = match &schema.value {
                    MapValue::Plain(Type::Pointer(_)) => Type::U64,
                    MapValue::Plain(ty @ (Type::Tuple(_) | Type::Inet | Type::Buffer { .. })) => bytes_of(ty),
                    MapValue::Plain(ty) => ty.clone(),
                    _ => Type::I64,
                };
                (Op::MapGet { map, key: key(self, insts) }, Some(ty))
            }
            3 => {
                let action = self.dice.below(self.schema.actions.len());
                let fields = weir_ir::check::action_fields(&self.schema.actions[action]);
                let types: Vec<Type> =
                    fields.into_iter().flat_map(|field| leaves(&field.ty)).cloned().collect();
                let args = types.iter().map(|ty| self.value(ty, usable, insts)).collect();
                (Op::Emit { action: ActionId(action as u32), args }, None)
            }
            _ => match &schema.value {
                MapValue::Plain(Type::Int { .. }) if self.dice.below(2) == 0 => {
                    let key = key(self, insts);
                    let delta = self.value(&Type::I64, usable, insts);
                    (Op::MapAdd { map, key, delta }, Some(Type::I64))
                }
                MapValue::Plain(ty) => {
                    let key = key(self, insts);
                    let value = self.value(ty, usable, insts);
                    (Op::MapSet { map, key, value }, None)
                }
                kind => {
                    let key = key(self, insts);
                    let value = (*kind != MapValue::Count).then(|| self.value(&Type::I64, usable, insts));
                    (Op::Aggregate { map, key, value }, None)
                }
            },
        };
        self.push(op, result, usable, insts);
    }

    /// A value that fits `ty`: one there is, or a new one.
    fn value(&mut self, ty: &Type, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) -> Value {
        let fitting: Vec<Value> =
            usable.iter().copied().filter(|value| weir_ir::fits(ty, &self.types[value.0 as usize])).collect();
        if fitting.is_empty() || self.dice.below(5) == 0 {
            self.fresh(ty, usable, insts)
        } else {
            self.dice.pick(&fitting)
        }
    }

    fn fresh(&mut self, ty: &Type, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) -> Value {
        // A pointer is a number, and a tuple bytes.
        let ty = match ty {
            Type::Pointer(_) => &Type::U64,
            Type::Tuple(_) | Type::Inet | Type::Buffer { .. } => &bytes_of(ty),
            ty => ty,
        };
        let op = match ty {
            Type::Object { bytes, .. } => match self.dice.below(5) {
                4 => self.join(*bytes, usable),
                0 => Op::Str(String::new()),
                1 => self.part(*bytes, usable).unwrap_or(Op::Str(String::new())),
                _ => {
                    let address = self.address(usable, insts);
                    let bytes = 1 + self.dice.below(*bytes as usize) as u32;
                    let is_limited = self.dice.below(3) == 0;
                    let limit = is_limited.then(|| self.value(&Type::U64, usable, insts));
                    Op::ReadBytes { address, bytes, limit }
                }
            },
            Type::Str { bytes } if *bytes > 8 && self.dice.below(8) == 0 => {
                let [a, b] = [0, 1].map(|_| {
                    let ty = Type::Str { bytes: bytes - 8 };
                    self.value(&ty, usable, insts)
                });
                Op::StrCat { a, b }
            }
            Type::Str { bytes } if self.dice.below(6) == 0 => {
                self.part(*bytes - 1, usable).unwrap_or(Op::Str(String::new()))
            }
            Type::Str { bytes } => match self.dice.below(3) {
                0 if *bytes == 16 => Op::Builtin(Builtin::Comm),
                0 | 1 => {
                    let text = [
                        "",
                        "a",
                        "weir",
                        "exactly8",
                        "longer than eight",
                        "the quick brown fox jumps over the lazy dog, twice, and then rests",
                    ];
                    let fitting: Vec<&str> =
                        text.into_iter().filter(|text| text.len() <= *bytes as usize).collect();
                    Op::Str(self.dice.pick(&fitting).to_string())
                }
                _ => {
                    let address = self.address(usable, insts);
                    let limit = match self.dice.below(3) {
                        0 => Some(self.value(&Type::U64, usable, insts)),
                        _ => None,
                    };
                    Op::ReadStr { address, limit }
                }
            },
            Type::Double => Op::Builtin(Builtin::Float(self.dice.below(8) as u8)),
            Type::Probe => Op::Builtin(Builtin::Probe),
            Type::Func => Op::Builtin(Builtin::Func),
            _ => self.fresh_int(usable, insts),
        };
        self.push(op, Some(ty.clone()), usable, insts).expect("an operation with a result")
    }

    fn address(&mut self, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) -> Value {
        let address = self.dice.pick(&ADDRESSES) as i64 + i64::from(self.dice.below(8) == 0);
        self.push(Op::Int(address), Some(Type::U64), usable, insts).expect("a constant")
    }

    /// So many bytes of what there is, one after the other.
    fn join(&mut self, bytes: u32, usable: &[Value]) -> Op {
        let (mut left, mut parts) = (bytes, Vec::new());
        for _ in 0..usable.len().min(8) {
            let value = self.dice.pick(usable);
            let own = self.types[value.0 as usize].bytes();
            let room = own + 8 * self.dice.below(2) as u32;
            if room <= left {
                parts.push((value, room));
                left -= room;
            }
        }
        match parts.last_mut() {
            Some((_, last)) => *last += left,
            None => return Op::Str(String::new()),
        }
        Op::Join(parts)
    }

    /// At most so many bytes of an object that there is.
    fn part(&mut self, most: u32, usable: &[Value]) -> Option<Op> {
        let size = |value: &Value| match self.types[value.0 as usize] {
            Type::Object { bytes, .. } => Some((*value, bytes)),
            _ => None,
        };
        let objects: Vec<(Value, u32)> = usable.iter().filter_map(size).collect();
        if objects.is_empty() {
            return None;
        }
        let (of, size) = self.dice.pick(&objects);
        let bytes = 1 + self.dice.below(most.min(size) as usize) as u32;
        Some(Op::Part { of, offset: self.dice.below((size - bytes + 1) as usize) as u32, bytes })
    }

    fn fresh_int(&mut self, usable: &mut Vec<Value>, insts: &mut Vec<Inst>) -> Op {
        let ints =
            usable.iter().filter(|value| matches!(self.types[value.0 as usize], Type::Int { .. })).count();
        match self.dice.below(8) {
            0 | 1 if self.is_session && self.dice.below(2) == 0 => {
                Op::Builtin(self.dice.pick(&[Builtin::IsReturn, Builtin::SessionCookie]))
            }
            0..=2 if ints > 0 => {
                let left = if self.dice.below(4) == 0 { Type::Double } else { Type::I64 };
                let (a, b) = (self.value(&left, usable, insts), self.value(&Type::I64, usable, insts));
                Op::Bin(self.dice.pick(&BinOp::NAMES).0, a, b)
            }
            3 | 4 if ints > 0 => {
                let (a, b) = (self.value(&Type::I64, usable, insts), self.value(&Type::I64, usable, insts));
                Op::Cmp(self.dice.pick(&CmpOp::NAMES).0, a, b)
            }
            5 if self.dice.below(4) == 0 => {
                let sizes = [string(self.menu, &mut self.dice), string(self.menu, &mut self.dice)];
                let (a, b) = (self.value(&sizes[0], usable, insts), self.value(&sizes[1], usable, insts));
                match self.dice.below(2) {
                    0 => Op::StrFind { text: a, part: b },
                    _ => Op::MemCmp { a, b, bytes: 1 + self.dice.below(40) as u32 },
                }
            }
            5 if self.dice.below(4) == 0 => {
                let [a, b] = [0, 1].map(|_| {
                    let ty = bytes_of(&buffer(&mut self.dice));
                    self.value(&ty, usable, insts)
                });
                Op::StrEq { a, b, negate: self.dice.below(2) == 0, first: None }
            }
            5 => {
                let sizes = [string(self.menu, &mut self.dice), string(self.menu, &mut self.dice)];
                let (a, b) = (self.value(&sizes[0], usable, insts), self.value(&sizes[1], usable, insts));
                let first = (self.dice.below(2) == 0).then(|| 1 + self.dice.below(40) as u32);
                Op::StrEq { a, b, negate: self.dice.below(2) == 0, first }
            }
            4 if let Some(Op::Part { of, offset, .. }) = self.part(1, usable) => {
                let Type::Object { bytes: all, .. } = self.types[of.0 as usize] else {
                    unreachable!("only objects have parts")
                };
                let fitting: Vec<u32> =
                    [1, 2, 4, 8].into_iter().filter(|bytes| offset + bytes <= all).collect();
                Op::Part { of, offset, bytes: self.dice.pick(&fitting) }
            }
            6 if self.menu.clocks => Op::Builtin(self.dice.pick(&[Builtin::Nsecs, Builtin::Elapsed])),
            6 | 7 => {
                let arg = Builtin::Arg(self.dice.below(6) as u8);
                Op::Builtin(self.dice.pick(&[arg, arg, Builtin::Pid, Builtin::Tid, Builtin::Cpu]))
            }
            _ => Op::Int(self.dice.int()),
        }
    }

    fn push(
        &mut self,
        op: Op,
        ty: Option<Type>,
        usable: &mut Vec<Value>,
        insts: &mut Vec<Inst>,
    ) -> Option<Value> {
        let result = ty.map(|ty| {
            self.types.push(ty);
            Value(self.types.len() as u32 - 1)
        });
        usable.extend(result);
        insts.push(Inst { result, op });
        result
    }
}
