// The official TypeScript client, version 2: npm `@modelcontextprotocol/client`.

import { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { serve } from './session.mjs';

await serve({
  UnauthorizedError,
  Transport: StreamableHTTPClientTransport,
  client: (era) =>
    new Client(
      { name: 'typescript-2', version: '1' },
      { versionNegotiation: { mode: era === 'legacy' ? 'legacy' : { pin: era } } },
    ),
  finish: (transport, answer) => transport.finishAuth(answer),
  revision: (client) => client.getNegotiatedProtocolVersion(),
  dpop: () => DpopSession.create(),
});
