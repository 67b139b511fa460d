//! Numbers of which one says what others are, in random programs: copies in each form that instructions give them.

use super::{Base, SLOTS, Writer};

impl Writer<'_> {
    /// Numbers of which one says what others are: copied, cut, shifted, moved on by constants, through registers and the stack; then
    /// one of them is compared, and all are looked at. A pointer that one of them moved goes where that one may be.
    pub(super) fn linked(&mut self) {
        let first = self.number();
        let is_bounded = self.random.one_in(2);
        if is_bounded {
            let (letter, most) = (self.letter(), self.random.pick(&[31, 63, 127]));
            line!(self, "{letter}{first} &= {most}");
        }
        let mut places = vec![format!("r{first}")];
        for _ in 0..1 + self.random.below(4) {
            let from = places[self.random.below(places.len())].clone();
            let register = match from.strip_prefix("*(") {
                // The low half of what may have been stored whole, with zeros or with its sign.
                Some(place) => {
                    let (to, at) = (self.number(), place.split_once('(').map_or("", |split| split.1));
                    let is_whole = place.starts_with("u64");
                    let width = self.random.pick(if is_whole {
                        &["u64", "u32", "s32"]
                    } else {
                        &["u32", "s32", "u32"]
                    });
                    line!(self, "r{to} = *({width} *)({at}");
                    format!("r{to}")
                }
                None => from.clone(),
            };
            let digit = register.trim_start_matches('r').to_owned();
            let to = self.number();
            let by = match self.random.below(4) {
                0 => 0x7fff_fff0,
                _ => self.random.below(40) as i64 - 20,
            };
            match self.random.below(if is_bounded { 14 } else { 11 }) {
                0..=2 => line!(self, "r{to} = r{digit}"),
                3 => line!(self, "w{to} = w{digit}"),
                4 => line!(self, "r{to} = (s32)r{digit}"),
                5 => line!(self, "r{to} = r{digit}\nr{to} += {by}"),
                6 => line!(self, "w{to} = w{digit}\nw{to} += {by}"),
                7 => {
                    let back = self.random.pick(&[">>=", "s>>="]);
                    line!(self, "r{to} = r{digit}\nr{to} <<= 32\nr{to} {back} 32");
                }
                8 => {
                    // One shift for two copies that come back each in its way.
                    line!(self, "r{digit} <<= 32\nr{to} = r{digit}\nr{to} >>= 32");
                    line!(self, "r{digit} s>>= 32");
                }
                9 => line!(self, "r{to} = r{digit}\nr{to} -= r{digit}\nif r{to} == 0 goto +0"),
                11..=13 => {
                    let (letter, by) = (self.letter(), self.random.pick(&[1, 1, 2, 5]));
                    line!(self, "r{to} = r{digit}\n{letter}{to} <<= {by}");
                    if self.random.one_in(3) {
                        let then = self.random.pick(&["|= 1", "&= -2", "+= 4", ">>= 1", "&= 254"]);
                        line!(self, "{}{to} {then}", self.letter());
                    }
                }
                _ => {
                    let bytes = self.random.pick(&[8, 8, 4]);
                    let at = self.random.pick(&SLOTS) - bytes * self.random.below(8 / bytes);
                    line!(self, "*(u{} *)(r10 - {at}) = r{digit}", bytes * 8);
                    places.push(format!("*(u{} *)(r10 - {at})", bytes * 8));
                    continue;
                }
            }
            places.push(format!("r{to}"));
        }
        let from = places[self.random.below(places.len())].clone();
        let moves = is_bounded && self.base != Base::Packet && self.random.one_in(2) && from.starts_with('r');
        if moves {
            let on = self.random.below(5) as i64 - 1;
            let sum = format!("r3 = r6\nr3 += {from}");
            let swapped = format!("r3 = {from}\nr3 += r6");
            line!(self, "{}\nr3 += {on}", if self.random.one_in(3) { swapped } else { sum });
        } else if self.random.one_in(4) && !self.is_function {
            self.line("call get_prandom_u32");
        }
        let (out, letter, most) = (self.label(), self.letter(), self.random.pick(&[1i64, 7, 15, 31, 62]));
        let checked = match places[self.random.below(places.len())].clone() {
            place if place.starts_with('*') => {
                line!(self, "r1 = {place}");
                "1".to_owned()
            }
            register => register.trim_start_matches('r').to_owned(),
        };
        match self.random.below(5) {
            0 => line!(self, "if {letter}{checked} > {most} goto {out}"),
            1 => line!(
                self,
                "if {letter}{checked} s> {most} goto {out}\nif {letter}{checked} s< {} goto {out}",
                self.random.below(9) as i64 - 4
            ),
            2 => line!(self, "if {letter}{checked} != {most} goto {out}"),
            3 => {
                line!(self, "if {letter}{checked} s< 0 goto {out}\nif {letter}{checked} >= {most} goto {out}")
            }
            _ => {
                let other = self.number();
                line!(self, "if {letter}{checked} != {letter}{other} goto {out}");
                places.push(format!("r{other}"));
            }
        }
        if moves {
            line!(self, "r4 = *(u8 *)(r3 + 0)");
        }
        for place in places {
            line!(self, "r1 = {place}");
            let (letter, bound) = (self.letter(), self.immediate());
            line!(self, "if {letter}1 {} {bound} goto +0", self.random.pick(&["s>", ">", "<=", "=="]));
            if self.random.one_in(3) {
                line!(self, "if r1 > 63 goto {out}\nr2 = r6\nr2 += r1");
                if self.base != Base::Packet {
                    line!(self, "r2 = *(u8 *)(r2 + 0)");
                }
            }
        }
        line!(self, "{out}:");
    }
}
