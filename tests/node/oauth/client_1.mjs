// The official TypeScript client, version 1, which speaks the older era alone: npm `@modelcontextprotocol/sdk`.

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { serve } from './session.mjs';

await serve({
  UnauthorizedError,
  Transport: StreamableHTTPClientTransport,
  client: () => new Client({ name: 'typescript-1', version: '1' }),
  finish: (transport, answer) => transport.finishAuth(answer.get('code')),
  revision: (_client, transport) => transport.protocolVersion,
});
