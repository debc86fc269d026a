//! Values as text for people: the `Debug` of replies and of owned values.
//!
//! Everything is on one line, and no function calls itself, however deep a value is nested.

use alloc::vec::Vec;
use core::fmt::{Arguments, Debug, Formatter, Result};
use core::slice::from_ref;

use super::owned::{Attributed, OwnedItems, OwnedPairs, OwnedValue, Walk};
use super::part::{Attributes, Part};
use super::value::{Items, Pairs, Value};

impl Debug for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.value(*self)?;
        printer.parts(self.inside(Attributes::Skipped))
    }
}

impl Debug for Items<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.open(&LIST, self.len())?;
        printer.parts(self.parts(Attributes::Skipped))
    }
}

impl Debug for Pairs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.open(&PAIRS, self.len() * 2)?;
        printer.parts(self.parts(Attributes::Skipped))
    }
}

impl Debug for OwnedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).owned(from_ref(self))
    }
}

impl Debug for OwnedItems {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.open(&LIST, self.len())?;
        printer.owned(self)
    }
}

impl Debug for OwnedPairs {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.open(&PAIRS, self.len() * 2)?;
        printer.owned(&self.0)
    }
}

impl Debug for Attributed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer::new(f);
        printer.attributed(self)?;
        printer.owned(&self.0)
    }
}

/// How an aggregate is written.
struct Shape {
    begin: &'static str,
    /// Stands before an element when the number of those that come is odd: of pairs, before a
    /// value. Before the others stands a comma.
    between: &'static str,
    end: &'static str,
}

impl Shape {
    const fn new(begin: &'static str, between: &'static str, end: &'static str) -> Self {
        Self {
            begin,
            between,
            end,
        }
    }
}

static LIST: Shape = Shape::new("[", ", ", "]");
static PAIRS: Shape = Shape::new("{", ": ", "}");
static ARRAY: Shape = Shape::new("Array([", ", ", "])");
static SET: Shape = Shape::new("Set([", ", ", "])");
static PUSH: Shape = Shape::new("Push([", ", ", "])");
static MAP: Shape = Shape::new("Map({", ": ", "})");
static ATTRIBUTED: Shape = Shape::new("Attributed(", ", ", ")");

/// Writes values that come one after the other, each before what is inside it.
struct Printer<'f, 'o> {
    f: &'f mut Formatter<'o>,
    /// The aggregates that lack elements, each inside the one before it.
    open: Vec<Open>,
}

struct Open {
    shape: &'static Shape,
    /// Elements that it lacks.
    left: usize,
}

impl<'f, 'o> Printer<'f, 'o> {
    const fn new(f: &'f mut Formatter<'o>) -> Self {
        Self {
            f,
            open: Vec::new(),
        }
    }

    fn parts<'a>(&mut self, mut parts: impl Iterator<Item = Part<'a>>) -> Result {
        parts.try_for_each(|part| match part {
            Part::Value(value) => self.value(value),
            Part::Attributes(_) => Ok(()),
        })
    }

    fn owned(&mut self, values: &[OwnedValue]) -> Result {
        Walk::new(values).try_for_each(|value| self.owned_value(value))
    }

    fn owned_value(&mut self, value: &OwnedValue) -> Result {
        match value {
            OwnedValue::Array(items) => self.open(&ARRAY, items.len()),
            OwnedValue::Set(items) => self.open(&SET, items.len()),
            OwnedValue::Push(items) => self.open(&PUSH, items.len()),
            OwnedValue::Map(pairs) => self.open(&MAP, pairs.len() * 2),
            OwnedValue::Attributed(attributed) => self.attributed(attributed),
            OwnedValue::Simple(text) => self.value(Value::Simple(text)),
            OwnedValue::Error(text) => self.value(Value::Error(text)),
            OwnedValue::Integer(integer) => self.value(Value::Integer(*integer)),
            OwnedValue::Bulk(text) => self.value(Value::Bulk(text)),
            OwnedValue::Null => self.value(Value::Null),
            OwnedValue::Double(double) => self.value(Value::Double(*double)),
            OwnedValue::Boolean(boolean) => self.value(Value::Boolean(*boolean)),
            OwnedValue::BigNumber(digits) => self.value(Value::BigNumber(digits)),
            OwnedValue::BulkError(text) => self.value(Value::BulkError(text)),
            &OwnedValue::Verbatim { format, ref text } => {
                self.value(Value::Verbatim { format, text })
            }
        }
    }

    fn attributed(&mut self, attributed: &Attributed) -> Result {
        self.open(&ATTRIBUTED, 2)?;
        self.open(&PAIRS, attributed.attributes().len() * 2)
    }

    fn value(&mut self, value: Value<'_>) -> Result {
        match value {
            Value::Array(items) => self.open(&ARRAY, items.len()),
            Value::Set(items) => self.open(&SET, items.len()),
            Value::Push(items) => self.open(&PUSH, items.len()),
            Value::Map(pairs) => self.open(&MAP, pairs.len() * 2),
            Value::Null => self.scalar(format_args!("Null")),
            Value::Integer(integer) => self.scalar(format_args!("Integer({integer})")),
            Value::Double(double) => self.scalar(format_args!("Double({double:?})")),
            Value::Boolean(boolean) => self.scalar(format_args!("Boolean({boolean})")),
            Value::BigNumber(digits) => {
                self.scalar(format_args!("BigNumber({})", digits.escape_ascii()))
            }
            Value::Simple(text) => self.text("Simple", text),
            Value::Error(text) => self.text("Error", text),
            Value::Bulk(text) => self.text("Bulk", text),
            Value::BulkError(text) => self.text("BulkError", text),
            Value::Verbatim { format, text } => {
                let (format, text) = (format.escape_ascii(), text.escape_ascii());
                self.scalar(format_args!("Verbatim(b\"{format}:{text}\")"))
            }
        }
    }

    fn text(&mut self, kind: &str, text: &[u8]) -> Result {
        self.scalar(format_args!("{kind}(b\"{}\")", text.escape_ascii()))
    }

    fn scalar(&mut self, text: Arguments<'_>) -> Result {
        self.f.write_fmt(text)?;
        self.close()
    }

    fn open(&mut self, shape: &'static Shape, elements: usize) -> Result {
        self.f.write_str(shape.begin)?;
        if elements == 0 {
            self.f.write_str(shape.end)?;
            return self.close();
        }
        self.open.push(Open {
            shape,
            left: elements,
        });
        Ok(())
    }

    /// Ends an element, and the aggregates whose last one it was.
    fn close(&mut self) -> Result {
        while let Some(Open { shape, left }) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                let is_odd = *left % 2 == 1;
                return self.f.write_str(if is_odd { shape.between } else { ", " });
            }
            self.f.write_str(shape.end)?;
            self.open.pop();
        }
        Ok(())
    }
}
