// An OpenID provider (npm `oidc-provider`) on loopback, with the settings that operators of such providers have.
//
// Standard output has one line, {"issuer": …}; it ends when standard input does, so that it never outlives its test.
// Beside the provider's own routes there is one for the tests: GET /control tells what was asked of the provider since
// the last POST /control, which changes settings (below) and begins to count anew.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';
import { Kept } from './kept.mjs';

const SCOPES = ['mcp:diag:read', 'mcp:diag:write'];
const EVERY_SCOPE = [...SCOPES, 'mcp:diag:approve']; // the last one is for clients that were entered for it

// A client that an operator entered by hand, for every scope; what the tests add has the same form.
const [clients] = process.argv.slice(2).map((text) => JSON.parse(text));

const DEFAULTS = {
  algorithm: 'RS256', // of access tokens
  consents: null, // scopes that the person agrees to at most; null: whatever is asked
  registers: 'every-scope', // what a client may ask for that registers itself: 'every-scope', or 'scopes-it-named'
  seconds: 600, // that an access token lives
};

let settings = { ...DEFAULTS };
let counts;
let provider;
let keys = [];

const forget = () => {
  counts = { authorization: [], registrations: 0, token: [] };
};

const madeKeys = () =>
  [
    ['rsa', { modulusLength: 2048 }, 'RS256'],
    ['ec', { namedCurve: 'P-256' }, 'ES256'],
  ].map(([kind, options, alg]) => ({
    ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }),
    alg,
    use: 'sig',
    kid: randomUUID(),
  }));

// What is kept outlives a provider that is made anew with other keys.
const made = (issuer) => {
  const made = new Provider(issuer, {
    adapter: Kept,
    clients,
    jwks: { keys },
    scopes: ['openid', 'offline_access', ...EVERY_SCOPE],
    cookies: { keys: ['a key of the tests'] },
    responseTypes: ['code'],
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    // The first key of an algorithm signs; `id_token_signed_response_alg` has to be one that there is.
    clientDefaults: { id_token_signed_response_alg: 'RS256' },
    // Without this the library lets a client ask for those scopes alone that it named when it registered.
    extraClientMetadata: {
      properties: ['registration_policy'],
      validator(ctx, _key, _value, metadata) {
        if (ctx?.oidc?.route === 'registration' && settings.registers === 'every-scope') {
          metadata.scope = ['offline_access', ...SCOPES].join(' ');
        }
      },
    },
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true },
      rpInitiatedLogout: { enabled: false },
      dPoP: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx, resource) => ({
          audience: resource,
          scope: EVERY_SCOPE.join(' '),
          accessTokenFormat: 'jwt',
          accessTokenTTL: settings.seconds,
          jwt: { sign: { alg: settings.algorithm } },
        }),
      },
    },
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    // The library's guard against requests to this machine stays out of the way: everything here is on this machine.
    fetch: (url, { dispatcher: _guard, ...options }) => globalThis.fetch(url, options),
  });
  made.on('server_error', (_ctx, error) => console.error(error));
  return made;
};

// The person: signs in as alice, and agrees to what is asked, or to less where the settings say so.
const interact = async (request, response) => {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    await provider.interactionFinished(request, response, { login: { accountId: 'alice' } });
    return;
  }
  const grant =
    (grantId && (await provider.Grant.find(grantId))) ||
    new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const agreed = (scopes) => scopes.filter((scope) => settings.consents === null || settings.consents.includes(scope));
  const refused = (scopes) => scopes.filter((scope) => !agreed(scopes).includes(scope));
  if (prompt.details.missingOIDCScope) {
    grant.addOIDCScope(agreed(prompt.details.missingOIDCScope).join(' '));
    grant.rejectOIDCScope(refused(prompt.details.missingOIDCScope).join(' '));
  }
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, agreed(scopes).join(' '));
    grant.rejectResourceScope(resource, refused(scopes).join(' '));
  }
  await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
};

const body = async (request) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
};

const control = async (request, response) => {
  if (request.method === 'POST') {
    const { keys: change, ...changed } = JSON.parse(await body(request));
    if (change === 'rotate') keys = [...madeKeys(), ...keys.slice(0, 2)];
    if (change === 'withdraw') keys = keys.slice(0, 2);
    if (change) provider = made(provider.issuer);
    settings = { ...DEFAULTS, ...changed };
    forget();
  }
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ ...counts, keys: keys.map(({ kid }) => kid) }));
};

const server = createServer(async (request, response) => {
  const url = new URL(request.url, provider.issuer);
  try {
    if (url.pathname === '/control') {
      await control(request, response);
    } else if (url.pathname.startsWith('/interaction/')) {
      await interact(request, response);
    } else {
      if (url.pathname === '/auth') counts.authorization.push(Object.fromEntries(url.searchParams));
      if (url.pathname === '/reg') counts.registrations += 1;
      if (url.pathname === '/token') counts.token.push({ bound: 'dpop' in request.headers });
      await provider.callback()(request, response);
    }
  } catch (error) {
    console.error(error);
    response.statusCode = 500;
    response.end();
  }
});

server.listen(0, '127.0.0.1', () => {
  keys = madeKeys();
  forget();
  provider = made(`http://127.0.0.1:${server.address().port}`);
  console.log(JSON.stringify({ issuer: provider.issuer }));
});
process.stdin.on('end', () => process.exit()).resume();
