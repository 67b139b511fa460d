//! What is assigned to maps alone: one arm for each row of [`AGGREGATIONS`](crate::builtin::AGGREGATIONS).

use weir_event::{HIST_BITS_MAX, MapValue, Series, lhist_buckets};
use weir_source::Span;

use crate::ast::{Expr, ExprKind};
use crate::builtin::{Aggregation, AggregationKind};
use crate::check::{Checker, constant, constant_string};
use crate::limits;

impl Checker<'_> {
    /// The value that assigning the aggregation gives a map.
    pub(super) fn aggregation(&mut self, row: &Aggregation, call: &Expr, args: &[Expr]) -> Option<MapValue> {
        let ExprKind::Call { function, .. } = &call.kind else { return None };
        if !self.arity(function, args, row.arity, row.signature) {
            return None;
        }
        let what = format!("`{}`", row.name);
        let signed = match args.first() {
            Some(arg) => self.integer(arg, &what),
            None => Some(true),
        };
        let value = match row.kind {
            AggregationKind::Count => MapValue::Count,
            AggregationKind::Sum => MapValue::Sum { signed: signed? },
            AggregationKind::Avg => MapValue::Avg { signed: signed? },
            AggregationKind::Min => MapValue::Min { signed: signed? },
            AggregationKind::Max => MapValue::Max { signed: signed? },
            AggregationKind::Stats => MapValue::Stats { signed: signed? },
            AggregationKind::Hist => {
                let bits = self.hist_bits(args.get(1))?;
                MapValue::Hist { bits }
            }
            AggregationKind::Tseries => self.tseries(args, signed?)?,
            AggregationKind::Lhist => self.lhist(call.span, args)?,
        };
        signed.map(|_| value)
    }

    fn hist_bits(&mut self, bits: Option<&Expr>) -> Option<u8> {
        let Some(bits) = bits else { return Some(0) };
        let most = i128::from(HIST_BITS_MAX);
        if let Some(found) = constant(bits, self.known).filter(|found| (0..=most).contains(found)) {
            return Some(found as u8);
        }
        if bits.kind != ExprKind::Invalid {
            let message = format!("the second argument of `hist` must be a constant from 0 to {most}");
            self.error(bits.span, &message, "each power of two has as many bits of buckets: `hist(n, 2)`");
        }
        None
    }

    fn tseries(&mut self, args: &[Expr], signed: bool) -> Option<MapValue> {
        let most = [i128::from(u64::MAX >> 1), i128::from(weir_ir::limits::INTERVALS_MAX)];
        let mut found = [0; 2];
        for (index, what) in ["interval", "number of intervals"].into_iter().enumerate() {
            let (arg, most) = (&args[1 + index], most[index]);
            match constant(arg, self.known).filter(|value| (1..=most).contains(value)) {
                Some(value) => found[index] = value,
                None => {
                    let message = format!("the {what} of `tseries` must be a constant from 1 to {most}");
                    self.error(arg.span, &message, "such as `tseries(n, 100ms, 20)`");
                    return None;
                }
            }
        }
        let of = match args.get(3) {
            None => Series::Last,
            Some(of) => {
                let name = constant_string(of, self.known);
                let known = Series::NAMES.iter().skip(1).find(|(_, known)| Some(*known) == name);
                let Some((of, _)) = known else {
                    let message =
                        "`tseries` makes \"avg\", \"max\", \"min\" or \"sum\" of the values of an interval";
                    self.error(of.span, message, "leave it out for the last value");
                    return None;
                };
                *of
            }
        };
        Some(MapValue::Tseries { interval_ns: found[0] as u64, intervals: found[1] as u32, of, signed })
    }

    fn lhist(&mut self, span: Span, args: &[Expr]) -> Option<MapValue> {
        let mut bounds = [0i64; 3];
        for (bound, (arg, what)) in bounds.iter_mut().zip(args[1..].iter().zip(["min", "max", "step"])) {
            match constant(arg, self.known).and_then(|value| i64::try_from(value).ok()) {
                Some(value) => *bound = value,
                None => {
                    let message = format!("`{what}` of `lhist` must be a constant");
                    self.error(arg.span, &message, "such as `lhist(arg0, 0, 1000, 100)`");
                    return None;
                }
            }
        }
        let [min, max, step] = bounds;
        let range = i128::from(max) - i128::from(min);
        let fault = if step < 1 {
            Some((args[3].span, format!("`step` of `lhist` must be at least 1, not {step}")))
        } else if range <= 0 {
            Some((
                args[2].span,
                format!("`max` of `lhist` must be above `min`, but {max} is not above {min}"),
            ))
        } else if i128::from(step) > range {
            Some((args[3].span, format!("`step` of `lhist` is larger than the range: {step} for {range}")))
        } else if (range - 1) / i128::from(step) >= limits::LHIST_BUCKETS_MAX {
            let buckets = (range - 1) / i128::from(step) + 1;
            let message = format!("too many buckets: {buckets}, the limit is {}", limits::LHIST_BUCKETS_MAX);
            Some((span, message))
        } else {
            None
        };
        if let Some((span, message)) = fault {
            self.error(
                span,
                &message,
                "write `lhist(n, min, max, step)`, such as `lhist(arg0, 0, 1000, 100)`",
            );
            return None;
        }
        debug_assert!(lhist_buckets(min, max, step) <= limits::LHIST_BUCKETS_MAX as u32 + 2);
        Some(MapValue::Lhist { min, max, step })
    }
}
