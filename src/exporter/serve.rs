//! As much HTTP as a scraper needs: `GET /metrics`, one request a connection, a few connections at a
//! time, each with a limit. No secrets are on the page, and nothing here changes anything.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Latest;
use crate::base::deadline::within;
use crate::base::tasks::Tasks;

/// Scrapes at the same time; more are hung up on.
const CONNECTIONS: usize = 16;
/// A scraper that takes longer is gone or means harm.
const SCRAPE_LIMIT: Duration = Duration::from_secs(10);
/// Pause after an accept that failed (no file descriptors): it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The text format of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers until it is dropped.
pub(super) async fn serve(listener: TcpListener, latest: Latest, tasks: &Tasks) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a scrape could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!("more than {CONNECTIONS} scrapes at the same time: hung up on one");
            continue;
        };
        let latest = latest.clone();
        tasks.spawn_until_stopped(async move {
            connection(stream, latest).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, latest: Latest) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &latest);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match within("scrape", SCRAPE_LIMIT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a scrape broke off"),
        Err(error) => tracing::debug!(%error, "a scrape was cut off"),
    }
}

fn answer(method: &Method, path: &str, latest: &Latest) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut refused = response(
            StatusCode::METHOD_NOT_ALLOWED,
            PLAIN,
            "only GET\n".to_owned(),
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    match path {
        "/metrics" => match latest.page() {
            Some(page) => response(StatusCode::OK, OPEN_METRICS, page),
            None => response(
                StatusCode::SERVICE_UNAVAILABLE,
                PLAIN,
                "the first look has not ended yet\n".to_owned(),
            ),
        },
        "/" => response(
            StatusCode::OK,
            PLAIN,
            "redrive exporter: /metrics\n".to_owned(),
        ),
        _ => response(
            StatusCode::NOT_FOUND,
            PLAIN,
            "/metrics is all there is\n".to_owned(),
        ),
    }
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
