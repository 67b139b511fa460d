//! Constants are folded.

use std::collections::HashMap;

use weir_source::{Diagnostic, Span};

use crate::ast::Operator;
use crate::ir::{Value, ValueId, Values, calculate};

/// The value in its simplest form. `folded` keeps what is known already.
pub(super) fn fold(
    values: &mut Values,
    folded: &mut HashMap<ValueId, ValueId>,
    id: ValueId,
) -> Result<ValueId, Diagnostic> {
    if let Some(done) = folded.get(&id) {
        return Ok(*done);
    }
    let new = match values.get(id).clone() {
        Value::Negate(inner) => {
            let inner = fold(values, folded, inner)?;
            match values.constant(inner) {
                Some(number) => values.number(number.wrapping_neg()),
                None => values.add(Value::Negate(inner)),
            }
        }
        Value::Load { base: Some(base), offset, width } => {
            let base = fold(values, folded, base)?;
            let new = match values.constant(base) {
                Some(number) => Value::Load { base: None, offset: offset.wrapping_add(number), width },
                None => match *values.get(base) {
                    // The constant joins the offset, which does not wrap where the sum did.
                    Value::Binary { operator: Operator::Add, left, right, .. }
                        if matches!(values.get(right), Value::HeaderLength { .. })
                            && values.constant(left).is_some() =>
                    {
                        let number = values.constant(left).unwrap_or(0);
                        Value::Load { base: Some(right), offset: offset.wrapping_add(number), width }
                    }
                    _ => Value::Load { base: Some(base), offset, width },
                },
            };
            values.add(new)
        }
        Value::Binary { operator, left, right, by_register } => {
            let left = fold(values, folded, left)?;
            let right = fold(values, folded, right)?;
            binary(values, operator, left, right, by_register)?
        }
        Value::Const(_)
        | Value::Set(_)
        | Value::Len
        | Value::Load { base: None, .. }
        | Value::HeaderLength { .. }
        | Value::Metadata(_)
        | Value::Context(_)
        | Value::Upper(_)
        | Value::If { .. } => id,
    };
    folded.insert(id, new);
    folded.insert(new, new);
    Ok(new)
}

fn binary(
    values: &mut Values,
    operator: Operator,
    left: ValueId,
    right: ValueId,
    by_register: bool,
) -> Result<ValueId, Diagnostic> {
    let refused = |fault| Err(Diagnostic::error(Span::new(0, 0), fault));
    match (values.constant(left), values.constant(right)) {
        (Some(left), Some(right)) => match calculate(operator, left, right) {
            Some(number) => Ok(values.number(number)),
            None if operator == Operator::Div => refused("division by zero"),
            None => refused("modulus by zero"),
        },
        (None, Some(0)) => match operator {
            Operator::Add | Operator::Sub | Operator::Lsh | Operator::Rsh | Operator::Or | Operator::Xor => {
                Ok(left)
            }
            Operator::Mul | Operator::And => Ok(values.number(0)),
            Operator::Div => refused("division by zero"),
            Operator::Mod => refused("modulus by zero"),
        },
        (None, Some(bits)) => {
            if matches!(operator, Operator::Lsh | Operator::Rsh) && bits > 31 {
                return refused("shift by more than 31 bits");
            }
            Ok(values.add(Value::Binary { operator, left, right, by_register: false }))
        }
        (Some(0), None) => match operator {
            Operator::Add | Operator::Or | Operator::Xor => Ok(right),
            Operator::Sub => Ok(values.add(Value::Binary { operator, left, right, by_register })),
            Operator::Mul | Operator::Div | Operator::Mod | Operator::And | Operator::Lsh | Operator::Rsh => {
                Ok(values.number(0))
            }
        },
        (_, None) => Ok(values.add(Value::Binary { operator, left, right, by_register })),
    }
}
