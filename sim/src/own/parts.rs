//! A lock out of two functions: what most locks are.

use std::future::Future;
use std::marker::PhantomData;

use super::{Failure, OwnLock};

/// How a lock `L` is taken: a function such as `async fn(&L, &str) -> Result<Option<H>, _>`.
pub trait Takes<'a, L: 'a, H>: Send + Sync {
    /// What it does.
    fn take(
        &self,
        lock: &'a L,
        key: &'a str,
    ) -> impl Future<Output = Result<Option<H>, Failure>> + Send + 'a;
}

impl<'a, L, H, F, T, E> Takes<'a, L, H> for F
where
    L: 'a,
    F: Fn(&'a L, &'a str) -> T + Send + Sync,
    T: Future<Output = Result<Option<H>, E>> + Send + 'a,
    E: Into<Failure>,
{
    fn take(
        &self,
        lock: &'a L,
        key: &'a str,
    ) -> impl Future<Output = Result<Option<H>, Failure>> + Send + 'a {
        let taking = self(lock, key);
        async move { taking.await.map_err(Into::into) }
    }
}

/// How a lock `L` is given back: a function such as
/// `async fn(&L, &str, &H) -> Result<bool, _>`, which says whether it was still held.
pub trait Gives<'a, L: 'a, H: 'a>: Send + Sync {
    /// What it does.
    fn give(
        &self,
        lock: &'a L,
        key: &'a str,
        held: &'a H,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + 'a;
}

impl<'a, L, H, F, T, E> Gives<'a, L, H> for F
where
    L: 'a,
    H: 'a,
    F: Fn(&'a L, &'a str, &'a H) -> T + Send + Sync,
    T: Future<Output = Result<bool, E>> + Send + 'a,
    E: Into<Failure>,
{
    fn give(
        &self,
        lock: &'a L,
        key: &'a str,
        held: &'a H,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + 'a {
        let giving = self(lock, key, held);
        async move { giving.await.map_err(Into::into) }
    }
}

/// An [`OwnLock`] out of parts, made by [`lock`].
#[derive(Debug)]
pub struct Parts<L, H, A, R> {
    lock: L,
    acquire: A,
    release: R,
    token: Option<fn(&H) -> u64>,
    held: PhantomData<fn(H)>,
}

/// `lock`, which is taken by `acquire` and given back by `release`: mostly two of its methods.
///
/// ```
/// use lockstorm_sim::own;
///
/// struct ShopLock;
/// impl ShopLock {
///     async fn try_lock(&self, _key: &str) -> std::io::Result<Option<String>> { Ok(None) }
///     async fn unlock(&self, _key: &str, _held: &String) -> std::io::Result<bool> { Ok(true) }
/// }
/// let lock = own::lock(ShopLock, ShopLock::try_lock, ShopLock::unlock);
/// # fn is_lock(_: impl own::OwnLock) {}
/// # is_lock(lock);
/// ```
pub fn lock<L, H, A, R>(lock: L, acquire: A, release: R) -> Parts<L, H, A, R>
where
    A: for<'a> Takes<'a, L, H>,
    R: for<'a> Gives<'a, L, H>,
    L: 'static,
    H: 'static,
{
    Parts { lock, acquire, release, token: None, held: PhantomData }
}

impl<L, H, A, R> Parts<L, H, A, R> {
    /// Its grants have fencing tokens.
    #[must_use]
    pub fn token(mut self, token: fn(&H) -> u64) -> Self {
        self.token = Some(token);
        self
    }
}

impl<L, H, A, R> OwnLock for Parts<L, H, A, R>
where
    L: Send + Sync + 'static,
    H: Send + Sync + 'static,
    A: for<'a> Takes<'a, L, H> + 'static,
    R: for<'a> Gives<'a, L, H> + 'static,
{
    type Held = H;

    async fn acquire(&self, key: &str) -> Result<Option<H>, Failure> {
        self.acquire.take(&self.lock, key).await
    }

    async fn release(&self, key: &str, held: H) -> Result<bool, Failure> {
        self.release.give(&self.lock, key, &held).await
    }

    fn token(&self, held: &H) -> Option<u64> {
        self.token.map(|token| token(held))
    }
}
