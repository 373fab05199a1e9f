//! JSON-RPC messages and their JSON form.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One JSON-RPC message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Asks the peer to do something and to answer.
    Request {
        /// What to do.
        method: String,
        /// Arguments.
        params: Vec<Value>,
        /// Repeated in the answer; not null.
        id: Value,
    },
    /// Answers a request that succeeded.
    Reply {
        /// Not null.
        result: Value,
        /// That of the request.
        id: Value,
    },
    /// Answers a request that failed.
    Error {
        /// Not null.
        error: Value,
        /// That of the request.
        id: Value,
    },
    /// Tells the peer something.
    Notify {
        /// What happened.
        method: String,
        /// Arguments.
        params: Vec<Value>,
    },
}

/// Why a text is no JSON-RPC message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not JSON.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// It is JSON, but no object.
    #[error("message is not a JSON object")]
    NotObject,
    /// The method is no string.
    #[error("method is not a JSON string")]
    Method,
    /// There is a member that no message has.
    #[error("message has unexpected member \"{0}\"")]
    UnexpectedMember(String),
    /// The parameters are no array.
    #[error("\"params\" must be JSON array")]
    Params,
    /// A member is missing.
    #[error("{kind} must have \"{member}\"")]
    MissingMember {
        /// What kind of message the other members make it.
        kind: &'static str,
        /// The member.
        member: &'static str,
    },
    /// A member does not belong there.
    #[error("{kind} must not have \"{member}\"")]
    ExtraMember {
        /// What kind of message the other members make it.
        kind: &'static str,
        /// The member.
        member: &'static str,
    },
}

/// Parses a text from a [`super::Framer`], whose limit on nesting stands in for that of the parser.
pub fn parse_json(text: &str) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = Value::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

impl Message {
    /// Reads a message from its JSON form, in which a null member counts as absent.
    pub fn from_json(json: Value) -> Result<Self, MessageError> {
        let Value::Object(mut members) = json else { return Err(MessageError::NotObject) };
        let method = match members.remove("method") {
            None => None,
            Some(Value::String(method)) => Some(method),
            Some(_) => return Err(MessageError::Method),
        };
        let mut take = |name| members.remove(name).filter(|value| !value.is_null());
        let params = take("params");
        let result = take("result");
        let error = take("error");
        let id = take("id");
        if let Some((name, _)) = members.into_iter().next() {
            return Err(MessageError::UnexpectedMember(name));
        }
        let params = match params {
            None => None,
            Some(Value::Array(params)) => Some(params),
            Some(_) => return Err(MessageError::Params),
        };
        let kind = match (&result, &error, &id) {
            (Some(_), _, _) => "reply",
            (None, Some(_), _) => "error",
            (None, None, Some(_)) => "request",
            (None, None, None) => "notification",
        };
        let missing = |member| MessageError::MissingMember { kind, member };
        let extra = |present: bool, member| match present {
            true => Err(MessageError::ExtraMember { kind, member }),
            false => Ok(()),
        };
        if let Some(result) = result {
            extra(method.is_some(), "method")?;
            extra(params.is_some(), "params")?;
            extra(error.is_some(), "error")?;
            Ok(Self::Reply { result, id: id.ok_or(missing("id"))? })
        } else if let Some(error) = error {
            extra(method.is_some(), "method")?;
            extra(params.is_some(), "params")?;
            Ok(Self::Error { error, id: id.ok_or(missing("id"))? })
        } else {
            let method = method.ok_or(missing("method"))?;
            let params = params.ok_or(missing("params"))?;
            Ok(match id {
                Some(id) => Self::Request { method, params, id },
                None => Self::Notify { method, params },
            })
        }
    }

    /// The JSON form.
    pub fn into_json(self) -> Value {
        let members = match self {
            Self::Request { method, params, id } => {
                vec![("method", method.into()), ("params", params.into()), ("id", id)]
            }
            Self::Reply { result, id } => {
                vec![("result", result), ("error", Value::Null), ("id", id)]
            }
            Self::Error { error, id } => {
                vec![("result", Value::Null), ("error", error), ("id", id)]
            }
            Self::Notify { method, params } => {
                vec![("method", method.into()), ("params", params.into()), ("id", Value::Null)]
            }
        };
        let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
        Value::Object(members.collect::<Map<_, _>>())
    }

    /// The message as log lines show it: its kind, then its members.
    pub(super) fn describe(&self) -> String {
        let array = |params: &[Value]| {
            let items: Vec<_> = params.iter().map(Value::to_string).collect();
            items.join(",")
        };
        match self {
            Self::Request { method, params, id } => {
                format!("request, method=\"{method}\", params=[{}], id={id}", array(params))
            }
            Self::Reply { result, id } => format!("reply, result={result}, id={id}"),
            Self::Error { error, id } => format!("error, error={error}, id={id}"),
            Self::Notify { method, params } => {
                format!("notification, method=\"{method}\", params=[{}]", array(params))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jsonrpc::{Framer, MAX_DEPTH};

    #[test]
    fn every_kind_goes_both_ways() {
        let method = || "transact".to_owned();
        let params = || vec![json!("Open_vSwitch"), json!({"op": "comment"})];
        let cases = [
            (
                Message::Request { method: method(), params: params(), id: json!(7) },
                json!({"method": "transact", "params": params(), "id": 7}),
                r#"request, method="transact", params=["Open_vSwitch",{"op":"comment"}], id=7"#,
            ),
            (
                Message::Reply { result: json!([]), id: json!("a") },
                json!({"result": [], "error": null, "id": "a"}),
                r#"reply, result=[], id="a""#,
            ),
            (
                Message::Error { error: json!("unknown method"), id: json!([1]) },
                json!({"result": null, "error": "unknown method", "id": [1]}),
                r#"error, error="unknown method", id=[1]"#,
            ),
            (
                Message::Notify { method: method(), params: vec![] },
                json!({"method": "transact", "params": [], "id": null}),
                r#"notification, method="transact", params=[]"#,
            ),
        ];
        for (message, json, description) in cases {
            assert_eq!(message.describe(), description);
            assert_eq!(Message::from_json(json.clone()).unwrap(), message);
            assert_eq!(message.into_json(), json);
        }
    }

    #[test]
    fn errors_have_the_words_that_tools_know() {
        let cases = [
            (json!([]), "message is not a JSON object"),
            (json!({"method": 1}), "method is not a JSON string"),
            (json!({"method": "m", "params": {}, "id": 1}), "\"params\" must be JSON array"),
            (json!({"method": "m", "x": 1, "y": 2}), "message has unexpected member \"x\""),
            (json!({}), "notification must have \"method\""),
            (json!({"method": "m"}), "notification must have \"params\""),
            (json!({"params": [], "id": 1}), "request must have \"method\""),
            (json!({"method": "m", "id": 1}), "request must have \"params\""),
            (json!({"result": 1, "error": null}), "reply must have \"id\""),
            (json!({"result": 1, "error": 2, "id": 3}), "reply must not have \"error\""),
            (json!({"result": 1, "method": "m", "id": 3}), "reply must not have \"method\""),
            (json!({"error": 1, "params": [], "id": 3}), "error must not have \"params\""),
            (json!({"error": 1}), "error must have \"id\""),
        ];
        for (json, message) in cases {
            assert_eq!(
                Message::from_json(json.clone()).unwrap_err().to_string(),
                message,
                "{json}"
            );
        }
    }

    #[test]
    fn nesting_up_to_the_limit_of_the_framer_is_parsed() {
        let text = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let mut framer = Framer::new(text.len());
        framer.push(text.as_bytes());
        let framed = framer.next_text().unwrap().unwrap();
        assert_eq!(parse_json(&framed).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["[", "[}", "{\"a\"}", "[1] [2]", "[01]", "[\"\\ud800\"]", "[\"\n\"]"] {
            assert!(parse_json(text).is_err(), "{text}");
        }
    }
}
