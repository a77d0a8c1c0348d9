// The official TypeScript client, version 2: npm `@modelcontextprotocol/client`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { serve } from './session.mjs';

await serve({
  Transport: StreamableHTTPClientTransport,
  client: (era, capabilities) =>
    new Client(
      { name: 'typescript-2', version: '1' },
      { capabilities, versionNegotiation: { mode: era === 'legacy' ? 'legacy' : { pin: era } } },
    ),
  onQuestion: (client, ask) => client.setRequestHandler('elicitation/create', ask),
  onComplete: (client, heard) => client.setNotificationHandler('notifications/elicitation/complete', heard),
  call: (client, call, options) => client.callTool(call, options),
});
