//! What lapin's errors mean to a caller: codes are translated here and nowhere else.

use lapin::uri::AMQPUri;
use lapin::{Error, ErrorKind};

use crate::base::tls;
use crate::broker::BrokerError;

/// The kind of an error on an open connection.
pub(super) fn fault(error: &Error) -> BrokerError {
    let ErrorKind::ProtocolError(told) = error.kind() else {
        return match error.kind() {
            ErrorKind::ChannelsLimitReached
            | ErrorKind::ParsingError(_)
            | ErrorKind::SerialisationError(_) => BrokerError::Protocol(error.to_string()),
            _ => BrokerError::Unavailable(error.to_string()),
        };
    };
    let text = told.get_message().to_string();
    match told.get_id() {
        404 if is_home_away(&text) => BrokerError::Unavailable(text),
        404 => BrokerError::NotFound(text),
        530 if text.contains("not found") => BrokerError::NotFound(text),
        403 | 405 | 530 => BrokerError::Denied(text),
        // Forced close, internal error, and what follows a frame lost on a closed channel.
        320 | 501 | 504 | 505 | 541 => BrokerError::Unavailable(text),
        _ => BrokerError::Protocol(text),
    }
}

/// The kind of an error while connecting: names server, account and virtual host, never the password.
pub(super) fn connect_fault(error: &Error, uri: &AMQPUri) -> BrokerError {
    let authority = &uri.authority;
    let place = format!("{}:{}", authority.host, authority.port);
    let user = &authority.userinfo.username;
    match fault(error) {
        BrokerError::Denied(text) if text.contains("vhost") => BrokerError::Denied(format!(
            "user {user:?} may not use virtual host {:?} at {place}: {text}",
            uri.vhost
        )),
        BrokerError::Denied(text) => BrokerError::Denied(format!(
            "{place} refused user {user:?}: wrong user or password ({text})"
        )),
        BrokerError::NotFound(_) => BrokerError::NotFound(format!(
            "virtual host {:?} does not exist at {place}",
            uri.vhost
        )),
        BrokerError::Unavailable(text) => BrokerError::Unavailable(
            tls::explained(&text, &place).unwrap_or_else(|| format!("{place}: {text}")),
        ),
        other => other,
    }
}

/// Text of an error that closed only its channel, or `None` when the connection is at stake.
pub(super) fn channel_fault(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::ProtocolError(told) if error.is_amqp_soft_error() => {
            Some(format!("{} {}", told.get_id(), told.get_message()))
        }
        _ => None,
    }
}

/// True when the channel had already been closed: the message did not leave.
pub(super) fn is_channel_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidChannel(_)
    )
}

/// True when the broker says that there is no such thing.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ProtocolError(told)
            if told.get_id() == 404 && !is_home_away(&told.get_message().to_string())
    )
}

/// A classic queue whose node is down is a 404 to RabbitMQ too, with other words: it is there, and nothing is known
/// of it.
fn is_home_away(text: &str) -> bool {
    text.contains("is down or inaccessible")
}
