//! Objects in a bucket of S3, Azure Blob Storage or Google Cloud Storage, or of a service that speaks like one of them.
//! Credentials, region and endpoint come from the variables of the environment that these services' tools read
//! (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `AZURE_STORAGE_ACCOUNT_NAME`, `GOOGLE_APPLICATION_CREDENTIALS` …).

use super::{Objects, ReadAt};
use crate::tls::{TlsRoots, untrusted};
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload};
use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use ureq::Agent;

/// Larger objects come in parts of this size; S3 takes no part of less than 5 MiB before the last one, and no more than
/// 10,000 parts: with this size, an object has up to 640 GiB.
const PART: usize = 64 << 20;

/// A request, with its answer, has this time.
const TIME: Duration = Duration::from_secs(300);

/// A bucket, or a folder of one.
pub(super) struct Bucket {
    store: Box<dyn ObjectStore>,
    folder: Path,
    /// Its futures wait on the calling thread, one after the other.
    runtime: Runtime,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.folder).finish()
    }
}

impl Bucket {
    pub(super) fn new(url: &str, roots: Option<&TlsRoots>) -> Result<Bucket, String> {
        let connector = Connector(roots.cloned());
        let wrong = |error: object_store::Error| format!("{url}: {error}");
        let (kind, rest) = url.split_once("://").unwrap_or_default();
        // The endpoint of a test, or of one's own network, may have no TLS. Its URL says so.
        let store: Box<dyn ObjectStore> = match kind {
            "s3" | "s3a" => {
                let plain = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"]
                    .iter()
                    .any(|name| std::env::var(name).is_ok_and(|url| url.starts_with("http://")));
                let builder = AmazonS3Builder::from_env().with_url(url).with_allow_http(plain);
                Box::new(builder.with_http_connector(connector).build().map_err(wrong)?)
            }
            "az" | "azure" | "abfs" | "abfss" => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url);
                Box::new(builder.with_http_connector(connector).build().map_err(wrong)?)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(url);
                Box::new(builder.with_http_connector(connector).build().map_err(wrong)?)
            }
            _ => return Err(format!("{kind}:// is no place for archives: expected a folder, s3://, gs:// or az://")),
        };
        let folder = rest.split_once('/').map_or("", |(_, folder)| folder);
        let folder = Path::parse(folder.trim_matches('/')).map_err(|error| format!("{url}: {error}"))?;
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| format!("{url}: {error}"))?;
        Ok(Bucket { store, folder, runtime })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.folder.clone(), Path::join)
    }
}

fn of(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            ErrorKind::PermissionDenied
        }
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Objects for Bucket {
    fn list(&self) -> io::Result<Vec<String>> {
        let folder = (!self.folder.as_ref().is_empty()).then_some(&self.folder);
        let all = self.runtime.block_on(self.store.list(folder).try_collect::<Vec<_>>()).map_err(of)?;
        let name = |path: &Path| {
            let parts: Vec<_> = path.prefix_match(&self.folder)?.collect();
            Some(parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/"))
        };
        Ok(all.iter().filter_map(|about| name(&about.location)).collect())
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let got = self.runtime.block_on(async {
            match range {
                Some((from, to)) => self.store.get_range(&path, from..to).await,
                None => self.store.get(&path).await?.bytes().await,
            }
        });
        match got {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(of(error)),
        }
    }

    fn put(&self, name: &str, bytes: u64, read: &mut ReadAt<'_>) -> io::Result<()> {
        let path = self.path(name);
        let mut part = |at: u64| {
            let mut part = vec![0; PART.min((bytes - at) as usize)];
            read(at, &mut part)?;
            Ok::<_, io::Error>(PutPayload::from(part))
        };
        if bytes <= PART as u64 {
            let whole = part(0)?;
            return self.runtime.block_on(self.store.put(&path, whole)).map(drop).map_err(of);
        }
        self.runtime.block_on(async {
            let mut upload = self.store.put_multipart(&path).await.map_err(of)?;
            let mut sent = async || {
                let mut at = 0;
                while at < bytes {
                    let part = part(at)?;
                    at += part.content_length() as u64;
                    upload.put_part(part).await.map_err(of)?;
                }
                upload.complete().await.map(drop).map_err(of)
            };
            match sent().await {
                Ok(()) => Ok(()),
                Err(error) => {
                    // Parts that nobody completes cost money; a bucket's rules may remove what this leaves.
                    let _ = upload.abort().await;
                    Err(error)
                }
            }
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.runtime.block_on(self.store.delete(&self.path(name))) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(of),
        }
    }
}

/// Requests by ureq, which the crate has for SERVICE: the usual client would bring another 60 crates.
#[derive(Debug)]
struct Connector(Option<TlsRoots>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let config = Agent::config_builder()
            .tls_config(self.0.as_ref().map(TlsRoots::http).unwrap_or_default())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_global(Some(TIME))
            .user_agent(concat!("vicus/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(HttpClient::new(Client(config.new_agent(), self.0.clone())))
    }
}

#[derive(Debug)]
struct Client(Agent, Option<TlsRoots>);

#[async_trait]
impl HttpService for Client {
    /// Blocks: the thread has nothing else to do.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        // ureq counts the bytes itself.
        parts.headers.remove("content-length");
        let mut bytes = Vec::with_capacity(body.content_length());
        if let Some(whole) = body.as_bytes() {
            bytes.extend_from_slice(whole);
        } else {
            let mut body = body;
            while let Some(frame) = futures_util::future::poll_fn(|context| {
                http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context)
            })
            .await
            {
                if let Ok(data) = frame?.into_data() {
                    bytes.extend_from_slice(&data);
                }
            }
        }
        let answered = if bytes.is_empty() && parts.method.is_safe() {
            self.0.run(ureq::http::Request::from_parts(parts, ()))
        } else {
            self.0.run(ureq::http::Request::from_parts(parts, bytes))
        };
        let answered = answered.map_err(|error| match untrusted(&error, self.1.as_ref()) {
            // No later try goes better.
            Some(why) => HttpError::new(HttpErrorKind::Unknown, io::Error::other(why)),
            None => HttpError::new(kind(&error), error),
        });
        let (parts, mut body) = answered?.into_parts();
        let read = body.with_config().limit(u64::MAX).read_to_vec();
        let bytes = read.map_err(|error| HttpError::new(kind(&error), error))?;
        Ok(HttpResponse::from_parts(parts, bytes.into()))
    }
}

fn kind(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}
