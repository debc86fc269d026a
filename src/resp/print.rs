//! Values as text for people: the `Debug` of replies.
//!
//! Everything is on one line, and no function calls itself, however deep a value is nested.

use alloc::vec::Vec;
use core::fmt::{Arguments, Debug, Formatter, Result};

use super::part::{Part, Shape};
use super::value::{Items, Pairs, Value};

impl Debug for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).parts(self.parts())
    }
}

impl Debug for Items<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).all(&LIST, self.len(), self.parts())
    }
}

impl Debug for Pairs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Printer::new(f).all(&PAIRS, self.len() * 2, self.parts())
    }
}

/// What is written around the values of an aggregate.
struct Brackets {
    begin: &'static str,
    /// Stands before an element when the number of those that come is odd: of pairs, before a
    /// value. Before the others stands a comma.
    between: &'static str,
    end: &'static str,
}

impl Brackets {
    const fn new(begin: &'static str, between: &'static str, end: &'static str) -> Self {
        Self {
            begin,
            between,
            end,
        }
    }
}

static LIST: Brackets = Brackets::new("[", ", ", "]");
static PAIRS: Brackets = Brackets::new("{", ": ", "}");
static ARRAY: Brackets = Brackets::new("Array([", ", ", "])");
static SET: Brackets = Brackets::new("Set([", ", ", "])");
static PUSH: Brackets = Brackets::new("Push([", ", ", "])");
static MAP: Brackets = Brackets::new("Map({", ": ", "})");

/// Writes values that come one after the other, each before what is inside it.
struct Printer<'f, 'o> {
    f: &'f mut Formatter<'o>,
    /// The aggregates that lack elements, each inside the one before it.
    open: Vec<Open>,
}

struct Open {
    brackets: &'static Brackets,
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

    /// Writes an aggregate with these values inside it.
    fn all<'a>(
        mut self,
        brackets: &'static Brackets,
        values: usize,
        parts: impl Iterator<Item = Part<'a>>,
    ) -> Result {
        self.open(brackets, values)?;
        self.parts(parts)
    }

    fn parts<'a>(&mut self, mut parts: impl Iterator<Item = Part<'a>>) -> Result {
        parts.try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: Part<'_>) -> Result {
        match part {
            Part::Scalar(value) => self.value(value),
            Part::Open(Shape::Array, values) => self.open(&ARRAY, values),
            Part::Open(Shape::Set, values) => self.open(&SET, values),
            Part::Open(Shape::Push, values) => self.open(&PUSH, values),
            Part::Open(Shape::Map, values) => self.open(&MAP, values),
        }
    }

    fn value(&mut self, value: Value<'_>) -> Result {
        match value {
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
            Value::Array(_) | Value::Map(_) | Value::Set(_) | Value::Push(_) => {
                self.part(value.part())
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

    fn open(&mut self, brackets: &'static Brackets, elements: usize) -> Result {
        self.f.write_str(brackets.begin)?;
        if elements == 0 {
            self.f.write_str(brackets.end)?;
            return self.close();
        }
        self.open.push(Open {
            brackets,
            left: elements,
        });
        Ok(())
    }

    /// Ends an element, and the aggregates whose last one it was.
    fn close(&mut self) -> Result {
        while let Some(Open { brackets, left }) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                let is_odd = *left % 2 == 1;
                return self
                    .f
                    .write_str(if is_odd { brackets.between } else { ", " });
            }
            self.f.write_str(brackets.end)?;
            self.open.pop();
        }
        Ok(())
    }
}
