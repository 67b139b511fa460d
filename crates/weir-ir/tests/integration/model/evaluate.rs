//! Runs a function of IR by its definition, one instruction at a time.
//!
//! In: a module, a function, a [`Surroundings`] and the [`State`] of its maps. Out: the state changed, records
//! added. Maps are kept as the words that weir-event defines, so that they can be compared with real ones.

use std::collections::BTreeMap;

use weir_event::{MapSchema, MapValue, Type};
use weir_ir::{
    Builtin, Function, MapId, Module, Op, Terminator, Value, check::action_fields, compared, leaves,
};

/// What builtins answer and what lies in the target's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) args: [u64; 6],
    /// Bits of the floating-point ones.
    pub(crate) floats: [u64; 8],
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    /// What the next read of the clock answers; each adds 1.
    pub(crate) nsecs: u64,
    pub(crate) started: u64,
    pub(crate) comm: String,
    pub(crate) cookie: u64,
    /// Of a session.
    pub(crate) is_return: bool,
    /// Strings by address; every other address faults.
    pub(crate) memory: BTreeMap<u64, String>,
}

/// What a function changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    /// Words of each entry by map index and key bytes. A scalar map has the empty key, there once it was touched.
    pub(crate) maps: BTreeMap<(u32, Vec<u8>), Vec<u64>>,
    /// Bytes of each record.
    pub(crate) records: Vec<Vec<u8>>,
    /// What the last run of a session has left, for the next.
    pub(crate) session_cookie: u64,
}

#[derive(Clone, Debug)]
enum Datum {
    Int(i64),
    /// Without padding.
    Str(Vec<u8>),
    /// All bytes of an object.
    Object(Vec<u8>),
}

/// Runs `function` once.
pub(crate) fn run(module: &Module, function: &Function, around: &mut Surroundings, state: &mut State) {
    let rounds = module.max_loop_iterations;
    let mut run = Run { module, around, state, rounds, values: vec![None; function.types.len()] };
    let mut block = &function.blocks[0];
    loop {
        for inst in &block.insts {
            let ty = inst.result.map(|result| function.ty(result));
            let datum = run.op(&inst.op, ty);
            if let Some(result) = inst.result {
                run.values[result.0 as usize] = Some(datum.expect("an operation with a result gives one"));
            }
        }
        let (to, args) = match &block.end {
            Terminator::Return | Terminator::Accept => return,
            Terminator::Jump { to, args } => (to, args),
            Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } => {
                if run.int(*condition) != 0 { (then, then_args) } else { (otherwise, otherwise_args) }
            }
        };
        let given: Vec<Datum> = args.iter().map(|&arg| run.get(arg).clone()).collect();
        block = &function.blocks[to.0 as usize];
        for (param, datum) in block.params.iter().zip(given) {
            run.values[param.0 as usize] = Some(datum);
        }
    }
}

struct Run<'a> {
    module: &'a Module,
    around: &'a mut Surroundings,
    state: &'a mut State,
    /// That the run's loops have left.
    rounds: u32,
    values: Vec<Option<Datum>>,
}

impl Run<'_> {
    fn get(&self, value: Value) -> &Datum {
        self.values[value.0 as usize].as_ref().expect("defined before use")
    }

    fn int(&self, value: Value) -> i64 {
        match self.get(value) {
            Datum::Int(int) => *int,
            other => panic!("{other:?} where an integer is wanted"),
        }
    }

    fn op(&mut self, op: &Op, ty: Option<&Type>) -> Option<Datum> {
        let int = |value: i64| Some(Datum::Int(value));
        match op {
            Op::Int(value) => int(*value),
            Op::Str(_) if matches!(ty, Some(Type::Object { .. })) => {
                Some(Datum::Object(vec![0; ty.expect("an object has a type").bytes() as usize]))
            }
            Op::Str(text) => Some(Datum::Str(text.clone().into_bytes())),
            Op::ReadBytes { address, bytes, limit } => {
                let limit = limit.map_or(u64::MAX, |limit| self.int(limit) as u64).min((*bytes).into());
                let text = self.around.memory.get(&(self.int(*address) as u64)).map_or("", String::as_str);
                let mut read = text.as_bytes()[..text.len().min(limit as usize)].to_vec();
                read.resize(ty.expect("an object has a type").bytes() as usize, 0);
                Some(Datum::Object(read))
            }
            Op::StrLen(text) => {
                let Datum::Str(bytes) = self.get(*text) else { panic!("only strings have a length") };
                int(bytes.len() as i64)
            }
            Op::StrFind { text, part } => {
                let (Datum::Str(text), Datum::Str(part)) = (self.get(*text), self.get(*part)) else {
                    panic!("a string is looked for in a string")
                };
                let found = (0..=text.len()).find(|at| text[*at..].starts_with(part));
                int(found.map_or(-1, |at| at as i64))
            }
            Op::StrCat { a, b } => {
                let (Datum::Str(first), Datum::Str(second)) = (self.get(*a), self.get(*b)) else {
                    panic!("strings are put together")
                };
                let room = ty.expect("a string has a type").bytes() as usize;
                let types = &self.module.functions[0].types;
                let all = [a, b].map(|value| types[value.0 as usize].bytes() as usize);
                let mut text = [&first[..], &second[..]].concat();
                text.truncate(if room < all[0] + all[1] { room - 1 } else { room });
                Some(Datum::Str(text))
            }
            Op::MemCmp { a, b, bytes } => {
                let [a, b] = [a, b].map(|value| match self.get(*value) {
                    Datum::Str(of) | Datum::Object(of) => {
                        let mut of = of.clone();
                        of.resize(*bytes as usize, 0);
                        of
                    }
                    Datum::Int(_) => panic!("bytes are compared"),
                });
                int(a.cmp(&b) as i64)
            }
            Op::ReadStrings { .. } => unreachable!("the model has no pointers"),
            Op::Join(parts) => {
                let mut all = Vec::new();
                for (value, bytes) in parts {
                    let mut part = match self.get(*value) {
                        Datum::Int(int) => int.to_le_bytes().to_vec(),
                        Datum::Str(bytes) | Datum::Object(bytes) => bytes.clone(),
                    };
                    part.resize(*bytes as usize, 0);
                    all.extend(part);
                }
                Some(Datum::Object(all))
            }
            Op::Part { of, offset, bytes } => {
                let Datum::Object(all) = self.get(*of) else { panic!("only objects have parts") };
                // A shorter one may stand where it came from, and zeros behind.
                let mut all = all.clone();
                all.resize(all.len().max((offset + bytes) as usize), 0);
                let part = &all[*offset as usize..][..*bytes as usize];
                let ty = ty.expect("a part has a type");
                let mut place = part.to_vec();
                place.resize(ty.bytes() as usize, 0);
                Some(match ty {
                    Type::Object { .. } => Datum::Object(place),
                    Type::Str { .. } => {
                        Datum::Str(part.iter().copied().take_while(|byte| *byte != 0).collect())
                    }
                    _ => Datum::Int(i64::from_le_bytes(place.try_into().expect("8 bytes"))),
                })
            }
            Op::Builtin(builtin) => Some(self.builtin(*builtin)),
            // It changes nothing that the model has.
            Op::Signal { .. } => None,
            Op::SetSessionCookie { value } => {
                self.state.session_cookie = self.int(*value) as u64;
                None
            }
            Op::Bin(op, a, b) => int(op.apply(self.int(*a), self.int(*b))),
            Op::Cmp(op, a, b) => int(i64::from(op.apply(self.int(*a), self.int(*b)))),
            Op::StrEq { a, b, negate, first } => {
                if let (Datum::Object(a), Datum::Object(b)) = (self.get(*a), self.get(*b)) {
                    let bytes = a.len().max(b.len());
                    let padded = |of: &Vec<u8>| [&of[..], &vec![0; bytes - of.len()][..]].concat();
                    return int(i64::from((padded(a) == padded(b)) != *negate));
                }
                let (Datum::Str(a), Datum::Str(b)) = (self.get(*a), self.get(*b)) else {
                    panic!("strings are compared")
                };
                int(i64::from((compared(a, *first) == compared(b, *first)) != *negate))
            }
            Op::ReadStr { address, limit } => {
                let bytes = ty.expect("a string has a type").bytes() as usize;
                let limit = limit.map_or(u64::MAX, |limit| self.int(limit) as u64).min(bytes as u64 - 1);
                let text = self.around.memory.get(&(self.int(*address) as u64)).map_or("", String::as_str);
                Some(Datum::Str(text.as_bytes()[..text.len().min(limit as usize)].to_vec()))
            }
            // The generator makes none: what they give is not known before it is printed.
            Op::KernelSymbol { .. } | Op::KernelStack(_) => unreachable!("the model has no kernel"),
            Op::UserSymbol { .. } | Op::UserStack(_) | Op::StackLength(_) => unreachable!("no symbols here"),
            Op::TextBegins { .. } => unreachable!("the functions are no filters"),
            Op::MayLoop => {
                let may = self.rounds > 0;
                self.rounds -= u32::from(may);
                int(i64::from(may))
            }
            Op::CallProgram => unreachable!("nobody gives a program"),
            Op::Record { .. } => unreachable!("no event is recorded"),
            Op::Match { .. } => unreachable!("the model offers no events"),
            Op::ReadInt { address, bytes } => {
                let text = self.around.memory.get(&(self.int(*address) as u64)).map_or("", String::as_str);
                let mut word = [0; 8];
                for (to, from) in word.iter_mut().take((*bytes).into()).zip(text.bytes()) {
                    *to = from;
                }
                int(i64::from_le_bytes(word))
            }
            Op::MapGet { map, key } => {
                let words = self.entry(*map, key).cloned();
                Some(read(self.schema(*map), words))
            }
            Op::MapNext { .. } => unreachable!("the order of keys is not the model's"),
            Op::MapHas { map, key } => {
                let words = self.entry(*map, key).cloned();
                int(i64::from(has(self.schema(*map), words)))
            }
            Op::MapSet { map, key, value } => {
                let schema = self.schema(*map).clone();
                let MapValue::Plain(ty) = &schema.value else { panic!("only plain maps are set") };
                let mut words = words_of(&self.bytes(*value, ty));
                words.extend(schema.key.is_none().then_some(1));
                *self.entry_mut(*map, key) = words;
                None
            }
            Op::MapAdd { map, key, delta } => {
                let delta = self.int(*delta) as u64;
                let words = self.entry_mut(*map, key);
                let before = words[0];
                words[0] = before.wrapping_add(delta);
                if let Some(assigned) = words.get_mut(1) {
                    *assigned = 1;
                }
                int(before as i64)
            }
            Op::MapDelete { map, key } => {
                let place = self.place(*map, key);
                self.state.maps.remove(&place);
                None
            }
            Op::Aggregate { map, key, value } => {
                let value = value.map_or(0, |value| self.int(value));
                let kind = self.schema(*map).value.clone();
                aggregate(&kind, self.entry_mut(*map, key), value);
                None
            }
            Op::Emit { action, args } => {
                let fields = action_fields(&self.module.schema.actions[action.0 as usize]);
                let mut args = args.iter();
                let mut parts = vec![(0, u64::from(action.0).to_le_bytes().to_vec())];
                for field in fields {
                    let leaves = leaves(&field.ty).into_iter().zip(args.by_ref());
                    let bytes = leaves.flat_map(|(ty, arg)| self.bytes(*arg, ty)).collect();
                    parts.push((field.offset, bytes));
                }
                parts.sort_by_key(|(offset, _)| *offset);
                let record = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
                self.state.records.push(record);
                None
            }
        }
    }

    fn builtin(&mut self, builtin: Builtin) -> Datum {
        let around = &mut *self.around;
        let mut now = || {
            around.nsecs += 1;
            around.nsecs as i64 - 1
        };
        Datum::Int(match builtin {
            Builtin::Nsecs => now(),
            Builtin::Elapsed => now().wrapping_sub(around.started as i64),
            Builtin::Arg(n) => around.args[usize::from(n)] as i64,
            // The model offers no events.
            Builtin::Slot(_) => 0,
            Builtin::Float(n) => around.floats[usize::from(n)] as i64,
            // Those that carry no argument are 0 in the model's world.
            Builtin::Register(n) => {
                let argument = [7, 6, 2, 1, 8, 9].iter().position(|register| *register == n);
                argument.map_or(0, |index| around.args[index] as i64)
            }
            Builtin::IsReturn => i64::from(around.is_return),
            Builtin::SessionCookie => self.state.session_cookie as i64,
            Builtin::Pid => i64::from(around.pid),
            Builtin::Tid => i64::from(around.tid),
            Builtin::Cpu => i64::from(around.cpu),
            // The model's modules do not ask for them.
            Builtin::Uid | Builtin::Gid | Builtin::Random | Builtin::Cgroup => 0,
            Builtin::BootNsecs | Builtin::TaiNsecs | Builtin::Jiffies | Builtin::NumaNode => 0,
            Builtin::Command => 0,
            // Nor any of the kernel's.
            Builtin::Field { .. } | Builtin::Context | Builtin::Task => 0,
            Builtin::Probe | Builtin::Func => around.cookie as i64,
            Builtin::Comm => return Datum::Str(around.comm.clone().into_bytes()),
        })
    }

    /// The bytes of a value where `ty` is wanted.
    fn bytes(&self, value: Value, ty: &Type) -> Vec<u8> {
        match self.get(value) {
            Datum::Int(int) => int.to_le_bytes().to_vec(),
            Datum::Object(text) | Datum::Str(text) => {
                let mut bytes = text.clone();
                bytes.resize(ty.bytes() as usize, 0);
                bytes
            }
        }
    }

    fn schema(&self, map: MapId) -> &MapSchema {
        &self.module.schema.maps[map.0 as usize]
    }

    fn place(&self, map: MapId, key: &[Value]) -> (u32, Vec<u8>) {
        let types: Vec<&Type> = self.schema(map).key.iter().flat_map(leaves).collect();
        (map.0, types.into_iter().zip(key).flat_map(|(ty, &value)| self.bytes(value, ty)).collect())
    }

    fn entry(&self, map: MapId, key: &[Value]) -> Option<&Vec<u64>> {
        self.state.maps.get(&self.place(map, key))
    }

    fn entry_mut(&mut self, map: MapId, key: &[Value]) -> &mut Vec<u64> {
        let place = self.place(map, key);
        let schema = self.schema(map);
        let words = schema.value.words(schema.key.is_none()) as usize;
        self.state.maps.entry(place).or_insert_with(|| vec![0; words])
    }
}

fn read(schema: &MapSchema, words: Option<Vec<u64>>) -> Datum {
    let word = |n: usize| words.as_ref().map_or(0, |words| words[n]);
    let sign = i64::MIN as u64;
    Datum::Int(match &schema.value {
        MapValue::Plain(ty @ (Type::Object { .. } | Type::Tuple(_) | Type::Inet | Type::Buffer { .. })) => {
            let bytes = &ty.bytes();
            let words = words.unwrap_or_else(|| vec![0; *bytes as usize / 8]);
            return Datum::Object(
                words.iter().take(*bytes as usize / 8).flat_map(|w| w.to_le_bytes()).collect(),
            );
        }
        MapValue::Plain(Type::Str { bytes }) => {
            let words = words.unwrap_or_default();
            let text: Vec<u8> =
                words.iter().take(*bytes as usize / 8).flat_map(|w| w.to_le_bytes()).collect();
            return Datum::Str(text.into_iter().take_while(|&byte| byte != 0).collect());
        }
        MapValue::Plain(_) | MapValue::Count | MapValue::Sum { .. } => word(0) as i64,
        _ if word(1) == 0 => 0,
        MapValue::Avg { signed: true } => (word(0) as i64).wrapping_div(word(1) as i64),
        MapValue::Avg { signed: false } => (word(0) / word(1)) as i64,
        MapValue::Min { signed: true } => (!word(0) ^ sign) as i64,
        MapValue::Min { signed: false } => !word(0) as i64,
        MapValue::Max { signed: true } => (word(0) ^ sign) as i64,
        MapValue::Max { signed: false } => word(0) as i64,
        other => panic!("{other:?} has no single number"),
    })
}

fn has(schema: &MapSchema, words: Option<Vec<u64>>) -> bool {
    let Some(words) = words else { return false };
    match &schema.value {
        _ if schema.key.is_some() => true,
        MapValue::Plain(_) => words.last() == Some(&1),
        _ => words.iter().any(|&word| word != 0),
    }
}

fn aggregate(kind: &MapValue, words: &mut [u64], value: i64) {
    let sign = i64::MIN as u64;
    let mut add = |at: usize, amount: u64| words[at] = words[at].wrapping_add(amount);
    match kind {
        MapValue::Count => add(0, 1),
        MapValue::Sum { .. } | MapValue::Avg { .. } | MapValue::Stats { .. } => {
            add(0, value as u64);
            add(1, 1);
        }
        MapValue::Min { .. } | MapValue::Max { .. } => {
            let encoded = match kind {
                MapValue::Min { signed: true } => !(value as u64 ^ sign),
                MapValue::Min { .. } => !(value as u64),
                MapValue::Max { signed: true } => value as u64 ^ sign,
                _ => value as u64,
            };
            words[0] = words[0].max(encoded);
            words[1] += 1;
        }
        MapValue::Hist { bits: 0 } => add(
            match value {
                i64::MIN..=-1 => 0,
                0 => 1,
                positive => 2 + positive.ilog2() as usize,
            },
            1,
        ),
        MapValue::Hist { bits } => add(weir_event::hist_bucket(value, *bits) as usize, 1),
        MapValue::Tseries { .. } => panic!("the model has no time"),
        MapValue::Lhist { min, max, step } => {
            let last = words.len() - 1;
            let bucket = if value < *min {
                0
            } else if value >= *max {
                last
            } else {
                1 + ((value as i128 - *min as i128) / *step as i128) as usize
            };
            words[bucket] += 1;
        }
        MapValue::Plain(_) => panic!("a plain map aggregates nothing"),
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    // SANITY: chunks_exact(8) gives slices of 8 bytes.
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("8 bytes"))).collect()
}
