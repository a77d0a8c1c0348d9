// A client of either TypeScript SDK as an application that is told what to do, a line of JSON each, on standard input.
//
// The first line is how to connect: {url, era, client, metadata_url, refreshes, dpop}. Each further line is a step,
// {do: "list"}, {do: "call", program} or {do: "revision"}. What came of each line is a line of JSON on standard output.

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { visit } from './browser.mjs';

const HOME = 'http://127.0.0.1:33418/callback'; // nobody listens: the browser stops in front of it
const TOOL = 'execute_diagnostic_pipeline';

/** The application's half of OAuth: what it is, what it keeps, and how it sends its person to sign in. */
class Account {
  constructor({ client, metadata_url, refreshes = true, dpop = null }) {
    this.redirectUrl = HOME;
    this.clientMetadataUrl = metadata_url;
    this.clientMetadata = {
      client_name: 'a TypeScript client',
      redirect_uris: [HOME],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'native',
    };
    this.kept = { client };
    this.refreshes = refreshes;
    if (dpop) this.dpop = () => dpop;
  }

  state = () => (this.kept.state = randomUUID());
  clientInformation = () => this.kept.client;
  saveClientInformation = (client) => void (this.kept.client = client);
  tokens = () => this.kept.tokens;
  saveTokens = ({ refresh_token, ...tokens }) =>
    void (this.kept.tokens = this.refreshes ? { ...tokens, refresh_token } : tokens);
  codeVerifier = () => this.kept.verifier;
  saveCodeVerifier = (verifier) => void (this.kept.verifier = verifier);
  discoveryState = () => this.kept.discovery;
  saveDiscoveryState = (discovery) => void (this.kept.discovery = discovery);

  async redirectToAuthorization(url) {
    this.answer = (await visit(url, HOME)).searchParams;
    if (this.answer.get('state') !== this.kept.state) throw new Error('sign-in failed: an answer to another request');
    if (this.answer.has('error')) {
      throw new Error(`sign-in failed: ${this.answer.get('error')}: ${this.answer.get('error_description')}`);
    }
  }
}

/** Do what the lines say; `sdk` holds what the versions do not have in common. */
export const serve = async (sdk) => {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    return done ? undefined : JSON.parse(value);
  };
  const tell = (what) => console.log(JSON.stringify(what));

  const job = await next();
  const account = new Account({ ...job, dpop: job.dpop ? await sdk.dpop() : null });
  let transport;

  // The SDKs leave it to the application to go on after a sign-in: it redeems the code and tries once more.
  const signedIn = async (act) => {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof sdk.UnauthorizedError) || !account.answer) throw error;
      const answer = account.answer;
      account.answer = undefined;
      await sdk.finish(transport, answer);
      return await act();
    }
  };

  const told = async (act) => {
    try {
      tell(await act());
    } catch (error) {
      tell({ error: error.message, kind: error.constructor.name });
    }
  };

  let client;
  await told(() =>
    signedIn(async () => {
      client = sdk.client(job.era);
      transport = new sdk.Transport(new URL(job.url), { authProvider: account });
      await client.connect(transport);
      return {};
    }),
  );
  const steps = {
    list: () => client.listTools(),
    call: ({ program }) => client.callTool({ name: TOOL, arguments: { program } }),
    revision: () => ({ revision: sdk.revision(client, transport) }),
  };
  for (let step = await next(); step; step = await next()) {
    const asked = step;
    await told(() => signedIn(() => steps[asked.do](asked)));
  }
  await client.close();
};
