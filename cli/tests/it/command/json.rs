//! Objects that a command has printed.

use serde_json::Value;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Json(Value);

impl Json {
    /// Parses one line with one object.
    #[track_caller]
    pub(super) fn line(text: &str) -> Self {
        let line = text.strip_suffix('\n').expect("a whole line");
        assert!(!line.contains(char::is_control), "{line:?}");
        let value: Value = serde_json::from_str(line).expect("JSON");
        assert!(value.is_object(), "{line:?}");
        Self(value)
    }

    /// Returns the value at this path of names, and of places in lists.
    #[track_caller]
    pub(super) fn at(&self, path: &str) -> &Value {
        let value = self.0.pointer(&format!("/{}", path.replace('.', "/")));
        value.unwrap_or_else(|| panic!("no {path:?} in {self:?}"))
    }

    #[track_caller]
    pub(super) fn text(&self, path: &str) -> &str {
        let value = self.at(path);
        value.as_str().unwrap_or_else(|| panic!("{path}: {value}"))
    }

    #[track_caller]
    pub(super) fn number(&self, path: &str) -> u64 {
        let value = self.at(path);
        value.as_u64().unwrap_or_else(|| panic!("{path}: {value}"))
    }

    /// Returns the names of the fields, sorted.
    #[track_caller]
    pub(super) fn names(&self) -> Vec<&str> {
        let fields = self.0.as_object().expect("an object");
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns the names of all fields, also of the objects in it.
    pub(super) fn all_names(&self) -> Vec<&str> {
        all_names(&self.0)
    }
}

fn all_names(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let names = fields.keys().map(String::as_str);
            names.chain(fields.values().flat_map(all_names)).collect()
        }
        Value::Array(values) => values.iter().flat_map(all_names).collect(),
        _ => Vec::new(),
    }
}
